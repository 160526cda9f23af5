/* The wall clock of one host, 3600 seconds ahead from the moment on that the file CLOCK_STEP_FILE exists.
   For LD_PRELOAD: a machine's clock cannot be stepped for one of its network namespaces alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static long step(void) {
    static int here = -1;
    const char *file = getenv("CLOCK_STEP_FILE"), *host = getenv("CLOCK_STEP_HOST");
    struct utsname name;
    if (here < 0) {
        here = file && host && !uname(&name) && !strcmp(name.nodename, host);
    }
    return here && !access(file, F_OK) ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && clock == CLOCK_REALTIME) at->tv_sec += step();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(at, zone);
    if (!failed) at->tv_sec += step();
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
