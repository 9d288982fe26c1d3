"""A program that makes every call with write intent once, and what the observer should say of each.

It is compiled in three ways: as an ordinary program, statically linked, and with the calls made through the
32-bit entry of an x86_64 kernel.
"""
import os
import subprocess

PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef ENTRY_32
enum {
  N_open = 5, N_creat = 8, N_link = 9, N_unlink = 10, N_mknod = 14, N_chmod = 15, N_utime = 30, N_rename = 38,
  N_mkdir = 39, N_rmdir = 40, N_ioctl = 54, N_symlink = 83, N_truncate = 92, N_fchmod = 94, N_socketcall = 102,
  N_truncate64 = 193, N_lchown = 198, N_fchown = 207, N_chown = 212, N_setxattr = 226, N_fsetxattr = 228,
  N_openat = 295, N_mkdirat = 296, N_mknodat = 297, N_unlinkat = 301, N_renameat = 302, N_linkat = 303,
  N_symlinkat = 304, N_fchmodat = 306, N_utimensat = 320, N_renameat2 = 353, N_socket = 359, N_bind = 361,
  N_openat2 = 437
};
static long enter(long number, long a, long b, long c, long d, long e) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
                   : "memory", "r8", "r9", "r10", "r11");
  return (int)result;
}
#else
enum {
  N_open = SYS_open, N_creat = SYS_creat, N_link = SYS_link, N_unlink = SYS_unlink, N_mknod = SYS_mknod,
  N_chmod = SYS_chmod, N_utime = SYS_utime, N_rename = SYS_rename, N_mkdir = SYS_mkdir, N_rmdir = SYS_rmdir,
  N_ioctl = SYS_ioctl, N_symlink = SYS_symlink, N_truncate = SYS_truncate, N_fchmod = SYS_fchmod,
  N_lchown = SYS_lchown, N_fchown = SYS_fchown, N_chown = SYS_chown, N_setxattr = SYS_setxattr,
  N_fsetxattr = SYS_fsetxattr, N_openat = SYS_openat, N_mkdirat = SYS_mkdirat, N_mknodat = SYS_mknodat,
  N_unlinkat = SYS_unlinkat, N_renameat = SYS_renameat, N_linkat = SYS_linkat, N_symlinkat = SYS_symlinkat,
  N_fchmodat = SYS_fchmodat, N_utimensat = SYS_utimensat, N_renameat2 = SYS_renameat2, N_socket = SYS_socket,
  N_bind = SYS_bind, N_openat2 = SYS_openat2
};
static long enter(long number, long a, long b, long c, long d, long e) {
  long result = syscall(number, a, b, c, d, e, 0);
  return result < 0 ? -errno : result;
}
#endif

#define CALL(number, a, b, c, d, e) enter(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
#define TRY(name, number, a, b, c, d, e)                           \
  do {                                                             \
    long result = CALL(number, a, b, c, d, e);                     \
    printf("%s %ld\n", name, result < 0 ? -result : 0l);           \
  } while (0)

/* Everything a 32-bit call points to must lie low: none of it on the stack. */
static char outside[1024], pool[1 << 16];
static size_t used;
static struct open_how how;
static struct sockaddr_un address;
static unsigned words[3];
static char value[] = "1", attribute[] = "user.t", target[] = "nowhere", inside[] = "in", here[] = ".";

static char *keep(const char *text) {
  char *at = pool + used;
  used += strlen(text) + 1;
  return strcpy(at, text);
}

static char *out(const char *name) {
  char path[2048];
  snprintf(path, sizeof path, "%s/%s", outside, name);
  return keep(path);
}

static void make(const char *name) {
  close(open(name, O_CREAT | O_WRONLY, 0644));
}

static void opens(int directory) {
  char *link = keep("/proc/self/fd/1000000");
  TRY("open", N_open, out("open"), O_WRONLY, 0, 0, 0);
  TRY("open-rdwr", N_open, out("open-rdwr"), O_RDWR, 0, 0, 0);
  TRY("open-append", N_open, out("open-append"), O_WRONLY | O_APPEND, 0, 0, 0);
  TRY("open-trunc", N_open, out("open-trunc"), O_RDONLY | O_TRUNC, 0, 0, 0);
  TRY("open-creat", N_open, out("open-creat"), O_WRONLY | O_CREAT, 0644, 0, 0);
  TRY("open-link", N_open, out("open-link"), O_WRONLY, 0, 0, 0);
  TRY("openat", N_openat, directory, keep("openat"), O_WRONLY, 0, 0);
  TRY("openat-cwd", N_openat, AT_FDCWD, keep("../out/openat-cwd"), O_WRONLY, 0, 0);
  TRY("openat-link", N_openat, AT_FDCWD, keep("outlink"), O_WRONLY, 0, 0);
  sprintf(link, "/proc/self/fd/%d", open(out("open-self"), O_RDONLY));
  TRY("open-self", N_open, link, O_WRONLY, 0, 0, 0);
  how.flags = O_WRONLY;
  TRY("openat2", N_openat2, directory, keep("openat2"), &how, sizeof how, 0);
  TRY("creat", N_creat, out("creat"), 0644, 0, 0, 0);
  TRY("create", N_open, out("create"), O_CREAT | O_WRONLY, 0644, 0, 0);
  TRY("create-excl", N_openat, directory, keep("create-excl"), O_CREAT | O_EXCL | O_RDWR, 0644, 0);
  TRY("create-read", N_openat, directory, keep("create-read"), O_CREAT | O_RDONLY, 0644, 0);
  TRY("create-link", N_open, out("create-link"), O_CREAT | O_WRONLY, 0644, 0, 0);
  how.flags = O_WRONLY | O_CREAT;
  how.mode = 0644;
  TRY("create-openat2", N_openat2, directory, keep("create-openat2"), &how, sizeof how, 0);
  TRY("tmpfile", N_open, out("tmpfile"), O_TMPFILE | O_RDWR, 0600, 0, 0);
  TRY("truncate", N_truncate, out("truncate"), 0, 0, 0, 0);
  TRY("truncate-link", N_truncate, out("truncate-link"), 0, 0, 0, 0);
#ifdef ENTRY_32
  TRY("truncate64", N_truncate64, out("truncate64"), 0, 0, 0, 0);
#endif
}

static void names(int directory) {
  TRY("unlink", N_unlink, out("unlink"), 0, 0, 0, 0);
  TRY("unlink-link", N_unlink, out("unlink-link"), 0, 0, 0, 0);
  TRY("unlinkat", N_unlinkat, directory, keep("unlinkat"), 0, 0, 0);
  TRY("rmdir", N_rmdir, out("rmdir"), 0, 0, 0, 0);
  TRY("rmdir-at", N_unlinkat, directory, keep("rmdir-at"), AT_REMOVEDIR, 0, 0);
  TRY("mkdir", N_mkdir, out("mkdir"), 0755, 0, 0, 0);
  TRY("mkdir-slash", N_mkdir, out("mkdir-slash/"), 0755, 0, 0, 0);
  TRY("mkdirat", N_mkdirat, directory, keep("mkdirat"), 0755, 0, 0);
  TRY("symlink", N_symlink, target, out("symlink"), 0, 0, 0);
  TRY("symlinkat", N_symlinkat, target, directory, keep("symlinkat"), 0, 0);
  TRY("mknod", N_mknod, out("mknod"), S_IFIFO | 0644, 0, 0, 0);
  TRY("mknodat", N_mknodat, directory, keep("mknodat"), S_IFREG | 0644, 0, 0);
}

static void moves(int directory) {
  make("rename-out-source");
  make("link-out-source");
  make("exchange-source");
  TRY("rename", N_rename, out("rename"), out("rename.new"), 0, 0, 0);
  TRY("rename-over", N_rename, out("rename-over"), out("rename-over.t"), 0, 0, 0);
  TRY("rename-directory", N_rename, out("rename-directory"), out("rename-directory.new"), 0, 0, 0);
  TRY("rename-in", N_renameat, directory, keep("rename-in"), AT_FDCWD, keep("rename-in-target"), 0);
  TRY("rename-out", N_renameat, AT_FDCWD, keep("rename-out-source"), directory, keep("rename-out"), 0);
  TRY("noreplace", N_renameat2, directory, keep("noreplace"), directory, keep("noreplace.new"), RENAME_NOREPLACE);
  TRY("exchange", N_renameat2, directory, keep("exchange"), AT_FDCWD, keep("exchange-source"), RENAME_EXCHANGE);
  TRY("link", N_link, out("link"), out("link.new"), 0, 0, 0);
  TRY("link-in", N_link, out("link-in"), keep("link-in-target"), 0, 0, 0);
  TRY("link-out", N_link, keep("link-out-source"), out("link-out"), 0, 0, 0);
  TRY("link-follow", N_linkat, directory, keep("link-follow"), directory, keep("link-follow.new"), AT_SYMLINK_FOLLOW);
}

static void binds(void) {
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, "../out/bind");
  TRY("bind", N_bind, socket(AF_UNIX, SOCK_STREAM, 0), &address, sizeof address, 0, 0);
  strcpy(address.sun_path, "../out/bind-short");
  TRY("bind-short", N_bind, socket(AF_UNIX, SOCK_STREAM, 0), &address, 2 + strlen(address.sun_path), 0, 0);
#ifdef ENTRY_32
  strcpy(address.sun_path, "../out/socketcall");
  words[0] = (unsigned)socket(AF_UNIX, SOCK_STREAM, 0);
  words[1] = (unsigned)(long)&address;
  words[2] = sizeof address;
  TRY("socketcall", N_socketcall, 2, words, 0, 0, 0);
#endif
}

static void metadata(int directory) {
  int file = open(out("fchmod"), O_RDONLY), owned = open(out("fchown"), O_RDONLY);
  int marked = open(out("fsetxattr"), O_RDONLY), flagged = open(out("flags"), O_RDONLY);
  static int flags;
  TRY("chmod", N_chmod, out("chmod"), 0700, 0, 0, 0);
  TRY("chmod-link", N_chmod, out("chmod-link"), 0700, 0, 0, 0);
  TRY("fchmod", N_fchmod, file, 0700, 0, 0, 0);
  TRY("fchmodat", N_fchmodat, directory, keep("fchmodat"), 0700, 0, 0);
  TRY("chmod-directory", N_chmod, out("chmod-directory"), 0700, 0, 0, 0);
  TRY("chown", N_chown, out("chown"), -1, getgid(), 0, 0);
  TRY("lchown", N_lchown, out("lchown"), -1, getgid(), 0, 0);
  TRY("fchown", N_fchown, owned, -1, getgid(), 0, 0);
  TRY("utime", N_utime, out("utime"), 0, 0, 0, 0);
  TRY("utimensat", N_utimensat, directory, keep("utimensat"), 0, 0, 0);
  TRY("utimensat-link", N_utimensat, directory, keep("utimensat-link"), 0, AT_SYMLINK_NOFOLLOW, 0);
  TRY("setxattr", N_setxattr, out("setxattr"), attribute, value, 1, 0);
  TRY("fsetxattr", N_fsetxattr, marked, attribute, value, 1, 0);
  ioctl_flags: (void)0;
  if (CALL(N_ioctl, flagged, FS_IOC_GETFLAGS, &flags, 0, 0) == 0)
    TRY("flags", N_ioctl, flagged, FS_IOC_SETFLAGS, &flags, 0, 0);
}

/* What fails, or succeeds, with or without a policy. */
static void harmless(int directory) {
  static char text[400];
  memset(text, 'x', 300);
  TRY("h-missing", N_open, out("h-missing"), O_WRONLY, 0, 0, 0);
  TRY("h-parent", N_open, out("h-parent/x"), O_CREAT | O_WRONLY, 0644, 0, 0);
  TRY("h-excl", N_open, out("h-file"), O_CREAT | O_EXCL | O_WRONLY, 0644, 0, 0);
  TRY("h-excl-link", N_open, out("h-link"), O_CREAT | O_EXCL | O_WRONLY, 0644, 0, 0);
  TRY("h-nofollow", N_open, out("h-link"), O_WRONLY | O_NOFOLLOW, 0, 0, 0);
  TRY("h-isdir", N_open, out("h-full"), O_WRONLY, 0, 0, 0);
  TRY("h-directory", N_open, out("h-file"), O_RDWR | O_DIRECTORY, 0, 0, 0);
  TRY("h-notdir", N_open, out("h-file/x"), O_CREAT | O_WRONLY, 0644, 0, 0);
  TRY("h-read-creat", N_open, out("h-file"), O_CREAT | O_RDONLY, 0644, 0, 0);
  TRY("h-path", N_open, out("h-file"), O_PATH | O_WRONLY, 0, 0, 0);
  TRY("h-read", N_open, out("h-file"), O_RDONLY, 0, 0, 0);
  TRY("h-null", N_open, keep("/dev/null"), O_RDWR | O_CREAT | O_TRUNC, 0644, 0, 0);
  TRY("h-zero", N_open, keep("/dev/zero"), O_RDWR, 0, 0, 0);
  TRY("h-tty", N_open, keep("/dev/tty"), O_RDWR, 0, 0, 0);
  TRY("h-address", N_open, 8, O_WRONLY, 0, 0, 0);
  TRY("h-empty", N_open, keep(""), O_WRONLY | O_CREAT, 0644, 0, 0);
  TRY("h-long", N_mkdir, text, 0755, 0, 0, 0);
  TRY("h-descriptor", N_openat, 999, keep("x"), O_WRONLY | O_CREAT, 0644, 0);
  TRY("h-tmp", N_open, keep("/tmp/confine-test-of-the-observer"), O_CREAT | O_WRONLY, 0644, 0, 0);
  TRY("h-tmp-unlink", N_unlink, keep("/tmp/confine-test-of-the-observer"), 0, 0, 0, 0);
  TRY("h-inside", N_open, inside, O_CREAT | O_WRONLY, 0644, 0, 0);
  TRY("h-inside-chmod", N_chmod, inside, 0600, 0, 0, 0);
  TRY("h-inside-rename", N_rename, inside, keep("in.new"), 0, 0, 0);
  TRY("h-mkdir", N_mkdir, out("h-full"), 0755, 0, 0, 0);
  TRY("h-mkdir-here", N_mkdir, here, 0755, 0, 0, 0);
  TRY("h-mkdir-parent", N_mkdir, out("h-parent/x"), 0755, 0, 0, 0);
  TRY("h-unlink-dir", N_unlink, out("h-full"), 0, 0, 0, 0);
  TRY("h-unlink-missing", N_unlink, out("h-missing"), 0, 0, 0, 0);
  TRY("h-rmdir-file", N_rmdir, out("h-file"), 0, 0, 0, 0);
  TRY("h-rmdir-full", N_rmdir, out("h-full"), 0, 0, 0, 0);
  TRY("h-rename-missing", N_rename, out("h-missing"), out("h-new"), 0, 0, 0);
  TRY("h-rename-onto-dir", N_rename, out("h-file"), out("h-full"), 0, 0, 0);
  TRY("h-rename-onto-full", N_rename, out("h-empty"), out("h-full"), 0, 0, 0);
  TRY("h-noreplace", N_renameat2, directory, keep("h-file"), directory, keep("h-link"), RENAME_NOREPLACE);
  TRY("h-exchange", N_renameat2, directory, keep("h-file"), directory, keep("h-missing"), RENAME_EXCHANGE);
  TRY("h-link", N_link, out("h-file"), out("h-link"), 0, 0, 0);
  TRY("h-link-dir", N_link, out("h-full"), out("h-new"), 0, 0, 0);
  TRY("h-symlink", N_symlink, target, out("h-file"), 0, 0, 0);
  TRY("h-truncate", N_truncate, out("h-missing"), 0, 0, 0, 0);
  TRY("h-chmod", N_chmod, out("h-missing"), 0644, 0, 0, 0);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  strcpy(outside, argv[1]);
  int directory = open(outside, O_RDONLY | O_DIRECTORY);
  if (strcmp(argv[2], "harmless") == 0) {
    harmless(directory);
    return 0;
  }
  opens(directory);
  names(directory);
  moves(directory);
  binds();
  metadata(directory);
  return 0;
}
""".replace("  ioctl_flags: (void)0;\n", "")

# Name: what it needs outside (file, directory, link to NAME.t, nothing), the operation, what is behind the
# name in the path that is recorded.
CALLS = {
    "open": ("file", "open", ""), "open-rdwr": ("file", "open", ""), "open-append": ("file", "open", ""),
    "open-trunc": ("file", "open", ""), "open-creat": ("file", "open", ""), "open-link": ("link", "open", ".t"),
    "openat": ("file", "open", ""), "openat-cwd": ("file", "open", ""), "openat-link": ("file", "open", ""),
    "open-self": ("file", "open", ""), "openat2": ("file", "open", ""), "creat": ("", "create", ""),
    "create": ("", "create", ""), "create-excl": ("", "create", ""), "create-read": ("", "create", ""),
    "create-link": ("dangling", "create", ".t"), "create-openat2": ("", "create", ""),
    "tmpfile": ("directory", "create", ""), "truncate": ("file", "truncate", ""),
    "truncate-link": ("link", "truncate", ".t"), "truncate64": ("file", "truncate", ""),
    "unlink": ("file", "unlink", ""), "unlink-link": ("link", "unlink", ""), "unlinkat": ("file", "unlink", ""),
    "rmdir": ("directory", "rmdir", ""), "rmdir-at": ("directory", "rmdir", ""), "mkdir": ("", "mkdir", ""),
    "mkdir-slash": ("", "mkdir", ""), "mkdirat": ("", "mkdir", ""), "symlink": ("", "symlink", ""),
    "symlinkat": ("", "symlink", ""), "mknod": ("", "mknod", ""), "mknodat": ("", "mknod", ""),
    "rename": ("file", "rename", ""), "rename-over": ("two", "rename", ""),
    "rename-directory": ("directory", "rename", ""), "rename-in": ("file", "rename", ""),
    "rename-out": ("", "rename", ""), "noreplace": ("file", "rename", ""), "exchange": ("file", "rename", ""),
    "link": ("file", "link", ""), "link-in": ("file", "link", ""), "link-out": ("", "link", ""),
    "link-follow": ("link", "link", ".t"), "bind": ("", "bind", ""), "bind-short": ("", "bind", ""),
    "socketcall": ("", "bind", ""), "chmod": ("file", "chmod", ""), "chmod-link": ("link", "chmod", ".t"),
    "fchmod": ("file", "chmod", ""), "fchmodat": ("file", "chmod", ""), "chmod-directory": ("directory", "chmod", ""),
    "chown": ("file", "chown", ""), "lchown": ("link", "chown", ""), "fchown": ("file", "chown", ""),
    "utime": ("file", "utimes", ""), "utimensat": ("file", "utimes", ""), "utimensat-link": ("link", "utimes", ""),
    "setxattr": ("file", "xattr", ""), "fsetxattr": ("file", "xattr", ""), "flags": ("file", "flags", ""),
}
BUILDS = {
    "dynamic": [],
    "static": ["-static"],
    "entry-32": ["-static", "-no-pie", "-DENTRY_32"],
}


def build(folder, compiler):
    """The three programs, by the name of their build."""
    source = folder / "observed.c"
    source.write_text(PROGRAM)
    programs = {}
    for name, flags in BUILDS.items():
        programs[name] = folder / f"observed-{name}"
        subprocess.run([compiler, "-O1", "-w", *flags, "-o", programs[name], source], check=True)
    return programs


def prepare(outside, workspace):
    """Makes what the calls need."""
    for name, (need, _, _) in CALLS.items():
        path = outside / name
        if need in ("file", "two"):
            path.write_text("v\n")
        if need == "directory":
            path.mkdir()
        if need in ("link", "dangling"):
            path.symlink_to(f"{name}.t")
        if need in ("link", "two"):
            (outside / f"{name}.t").write_text("v\n")
    (outside / "h-file").write_text("v\n")
    (outside / "h-link").symlink_to("h-file")
    (outside / "h-empty").mkdir()
    (outside / "h-full").mkdir()
    (outside / "h-full" / "x").write_text("v\n")
    (workspace / "outlink").symlink_to("../out/openat-link")


def everything(folder):
    return [folder, *(os.path.join(top, name) for top, folders, files in os.walk(folder) for name in folders + files)]
