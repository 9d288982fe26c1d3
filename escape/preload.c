/*
 * The shared object of the loader techniques: when a dynamic loader takes it in, by whatever
 * variable, it makes the file that ESCAPE_MARK names. It needs no library, so that any loader
 * takes it: build with -shared -fPIC -nostdlib.
 */
#if defined(__x86_64__)
static long raw_open(const char *path)
{
  long ret;
  register long r10 __asm__("r10") = 0644;

  /* openat(AT_FDCWD, path, O_WRONLY | O_CREAT, 0644) */
  __asm__ volatile("syscall"
                   : "=a"(ret)
                   : "a"(257L), "D"(-100L), "S"(path), "d"(0101L), "r"(r10)
                   : "rcx", "r11", "memory");
  return ret;
}
#elif defined(__aarch64__)
static long raw_open(const char *path)
{
  register long x8 __asm__("x8") = 56;
  register long x0 __asm__("x0") = -100;
  register const char *x1 __asm__("x1") = path;
  register long x2 __asm__("x2") = 0101;
  register long x3 __asm__("x3") = 0644;

  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
#endif

static void mark(char **envp)
{
  static const char name[] = "ESCAPE_MARK=";

  for (; envp && *envp; envp++) {
    unsigned i = 0;
    while (name[i] && (*envp)[i] == name[i])
      i++;
    if (!name[i])
      raw_open(*envp + i);
  }
}

/* glibc hands the arguments to constructors; musl does not, and is not attacked by this. */
__attribute__((constructor)) static void loaded(int argc, char **argv, char **envp)
{
  (void)argc;
  (void)argv;
  mark(envp);
}

/* rtld-audit(7): without it LD_AUDIT drops the object */
unsigned la_version(unsigned version);
unsigned la_version(unsigned version)
{
  return version;
}

/* iconv's modules */
int gconv_init(void *step);
int gconv_init(void *step)
{
  (void)step;
  return 1;
}

int gconv(void);
int gconv(void)
{
  return 1;
}
