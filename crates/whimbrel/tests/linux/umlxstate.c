/* Preloaded into user-mode-linux (LD_PRELOAD), on any host.
 *
 * User-mode-linux 6.1 keeps 2696 bytes of a process's XSAVE state. On a CPU with a larger one (AMX: 11008 bytes) the host
 * refuses to set such a part of it (PTRACE_SETREGSET of NT_X86_XSTATE fails with EFAULT), and the first process dies. This
 * pads the state to the host's size. The components past those 2696 bytes are marked as being in their initial state.
 * Where the sizes agree, nothing is changed. A statically linked program would not load this; Debian's is not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define NT_X86_XSTATE 0x202
#define HEADER 512	/* XSTATE_BV, which components are not in their initial state, follows the legacy area. */
#define KNOWN 0x2ff	/* The components in the first 2696 bytes: x87, SSE, AVX, MPX, AVX-512, PKRU. */

typedef long (*ptrace_fn)(int, int, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn next;
	static size_t full;	/* What the host has and wants; 0 until it is known. */
	static unsigned char state[65536];
	struct iovec whole = { state, sizeof state };
	va_list arguments;

	va_start(arguments, request);
	int pid = va_arg(arguments, int);
	void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!next)
		next = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || (uintptr_t)address != NT_X86_XSTATE)
		return next(request, pid, address, data);

	const struct iovec *part = data;
	if (!full && next(PTRACE_GETREGSET, pid, address, &whole) == 0)
		full = whole.iov_len;
	if (part->iov_len >= full || part->iov_len < HEADER + 8)
		return next(request, pid, address, data);
	uint64_t components;
	memset(state, 0, full);
	memcpy(state, part->iov_base, part->iov_len);
	memcpy(&components, state + HEADER, 8);
	components &= KNOWN;
	memcpy(state + HEADER, &components, 8);
	whole.iov_len = full;
	return next(request, pid, address, &whole);
}
