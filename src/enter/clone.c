#include "enter/plan.h"
#include "enter/sys.h"

__attribute__((noinline)) long confine__clone(unsigned long flags, char *stack_top, int (*run)(void *),
                                                 void *arg) {
  uintptr_t *sp = (uintptr_t *)stack_top;
  *--sp = (uintptr_t)arg;
  *--sp = (uintptr_t)run;
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = 0;
  register long r8 __asm__("r8") = 0;
  __asm__ volatile("syscall\n\t"
                   "test %%rax, %%rax\n\t"
                   "jnz 1f\n\t"
                   "xor %%ebp, %%ebp\n\t"
                   "pop %%rax\n\t"
                   "pop %%rdi\n\t"
                   "call *%%rax\n\t"
                   "mov %%eax, %%edi\n\t"
                   "mov %[exit], %%eax\n\t"
                   "syscall\n\t"
                   "hlt\n"
                   "1:"
                   : "=a"(result)
                   : "a"((long)__NR_clone), "D"(flags), "S"(sp), "d"(0l), "r"(r10), "r"(r8),
                     [exit] "i"(__NR_exit_group)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = __NR_clone;
  register long x0 __asm__("x0") = (long)flags;
  register long x1 __asm__("x1") = (long)sp;
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = 0;
  __asm__ volatile("svc 0\n\t"
                   "cbnz x0, 1f\n\t"
                   "mov x29, xzr\n\t"
                   "ldp x1, x0, [sp], #16\n\t"
                   "blr x1\n\t"
                   "mov x8, %[exit]\n\t"
                   "svc 0\n"
                   "1:"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [exit] "i"(__NR_exit_group)
                   : "memory", "cc", "x30");
  return x0;
#endif
}
