/* What peer.c wants of an SCTP stack: one listening socket and one association at a time. A negative result is an error; errno has its number. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>

struct what {
    size_t len;
    int stream, unordered, is_last;
    uint32_t ppid;
    char end[128]; /* how the association ended */
};

enum received { MESSAGE, ENDED };
enum change { ADD, PRIMARY, REMOVE };

/* Addresses that sockets are bound to. */
extern struct sockaddr_in *local;
extern int local_count;

int load_module(const char *name, const char *parameters);

/* Limits retransmissions of the messages sent from now on (RFC 7496); -1: none. */
extern int most_retransmissions;
/* The port of the next socket that connects; 0: any. */
extern int local_port;
/* The send buffer of sockets made from now on, which limits the length of messages; 0: the default. */
extern int send_buffer;
/* Sockets made from now on offer I-DATA (RFC 8260). */
extern int interleaving;
/* Sockets made from now on may change streams (RFC 6525). */
extern int stream_changes;

/* Once, when the devices have their addresses. */
int stack_start(void);
int stack_listen(int port);
int stack_accept(void);
int stack_connect(struct sockaddr_in *peer, int count);
int stack_send(const void *data, size_t len, int stream, uint32_t ppid, int unordered);
/* The next part of a message, with its length, and whether it ends the message; or how the association ended. */
enum received stack_receive(void *buffer, size_t size, struct what *what);
int stack_shutdown(void);
int stack_abort(void);
/* The state of one of the peer's addresses, or NULL. */
const char *stack_path(struct sockaddr_in address);
/* Timers, in milliseconds, and extensions, 0 or 1. */
int stack_set(const char *name, const char *value);
/* The numbers of an outbound stream begin at 0 again. */
int stack_reset(int stream);
/* More streams. */
int stack_add(int outbound, int inbound);
/* An address of ours comes, is to be sent to first, or goes (RFC 5061). */
int stack_change(enum change change, struct sockaddr_in address);
