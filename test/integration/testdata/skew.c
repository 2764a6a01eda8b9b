// Preloaded into a server, it adds to the wall clock what its file says, in
// microseconds, as a signed 64-bit integer. Redis reads the clock for expiry and
// for TIME with gettimeofday; timers use the monotonic clock, which stays.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t *skew;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("REDLATCH_TEST_SKEW");
	int file = path ? open(path, O_RDONLY) : -1;
	if (file < 0) return;
	void *mapped = mmap(NULL, sizeof *skew, PROT_READ, MAP_SHARED, file, 0);
	if (mapped != MAP_FAILED) skew = mapped;
	close(file);
}

static int64_t now(void) {
	struct timespec ts;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + (skew ? *skew : 0);
}

int gettimeofday(struct timeval *tv, void *zone) {
	(void)zone;
	int64_t us = now();
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}

time_t time(time_t *out) {
	time_t s = now() / 1000000;
	if (out) *out = s;
	return s;
}
