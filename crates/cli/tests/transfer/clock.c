/* A system clock that is set again and again while programs run: of three seconds it is right in one, an hour ahead in one, and an hour
 * behind in one. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    struct timespec steady;
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result != 0 || clock != CLOCK_REALTIME || syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady) != 0)
        return result;
    time->tv_sec += (steady.tv_sec % 3 - 1) * 3600;
    return 0;
}
