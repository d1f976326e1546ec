/* A host with AMX, as far as user-mode-linux sees one: preloaded after umlxstate.c, below which it stands. The XSAVE state has
 * 11008 bytes, is set as a whole or not at all, and reading it shows two components more, of which nothing may come back
 * unless all of its bytes do. The real host gets what it has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define NT_X86_XSTATE 0x202
#define FULL 11008
#define AMX (3ull << 17)

typedef long (*ptrace_fn)(int, int, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn next;
	static unsigned char state[FULL];
	struct iovec *part, real = { state, FULL };
	uint64_t components;
	va_list arguments;

	va_start(arguments, request);
	int pid = va_arg(arguments, int);
	void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!next)
		next = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	if ((uintptr_t)address != NT_X86_XSTATE || (request != PTRACE_GETREGSET && request != PTRACE_SETREGSET))
		return next(request, pid, address, data);

	part = data;
	memset(state, 0, FULL);
	if (next(PTRACE_GETREGSET, pid, address, &real))
		return -1;
	if (request == PTRACE_GETREGSET) {
		memcpy(&components, state + 512, 8);
		components |= AMX;
		memcpy(state + 512, &components, 8);
		if (part->iov_len > FULL)
			part->iov_len = FULL;
		memcpy(part->iov_base, state, part->iov_len);
		return 0;
	}
	memcpy(&components, (char *)part->iov_base + 512, 8);
	if (part->iov_len != FULL || components & AMX) {
		errno = EFAULT;
		return -1;
	}
	real.iov_base = part->iov_base;
	return next(request, pid, address, &real);
}
