/* The kernel's own SCTP. */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sctp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener = -1;
static int association = -1;

int stack_start(void) {
    /* Those that sctp needs come first, as modules.dep has it. */
    static const char *const modules[][2] = {
        {"crypto/hmac", ""},
        {"net/ipv4/udp_tunnel", ""},
        {"lib/crc-ccitt", ""},
        {"net/ipv6/ipv6", "disable_ipv6=1"},
        {"net/ipv6/ip6_udp_tunnel", ""},
        {"net/sctp/sctp", ""},
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (load_module(modules[i][0], modules[i][1]) < 0)
            return -1;
    return 0;
}

/* What a socket offers beyond RFC 9260. */
static int extend(int fd) {
    struct sctp_assoc_value on = {.assoc_value = 1}, changes = {.assoc_value = SCTP_ENABLE_STRRESET_MASK};
    int some = 1;
    if (interleaving && (stack_set("intl_enable", "1") < 0 ||
                         setsockopt(fd, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &some, sizeof some) < 0 ||
                         setsockopt(fd, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &on, sizeof on) < 0))
        return -1;
    if (stream_changes && setsockopt(fd, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &changes, sizeof changes) < 0)
        return -1;
    return 0;
}

/* A one-to-one socket that has our addresses. */
static int bound_socket(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    struct sctp_initmsg streams = {.sinit_num_ostreams = 16, .sinit_max_instreams = 64};
    struct sctp_event_subscribe events = {
        .sctp_data_io_event = 1, .sctp_association_event = 1, .sctp_shutdown_event = 1};
    for (int i = 0; i < local_count; i++)
        local[i].sin_port = htons(port);
    if ((send_buffer && setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_buffer, sizeof send_buffer) < 0) ||
        setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, local, local_count * sizeof *local) < 0 ||
        setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams) < 0 ||
        setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) < 0 || extend(fd) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int stack_listen(int port) {
    listener = bound_socket(port);
    return listener < 0 ? -1 : listen(listener, 4);
}

int stack_accept(void) { return association = accept(listener, NULL, NULL); }

int stack_connect(struct sockaddr_in *peer, int count) {
    association = bound_socket(local_port);
    return association < 0 ? -1
                           : setsockopt(association, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, peer, count * sizeof *peer);
}

int stack_send(const void *data, size_t len, int stream, uint32_t ppid, int unordered) {
    char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))] = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_SCTP;
    header->cmsg_type = SCTP_SNDRCV;
    header->cmsg_len = CMSG_LEN(sizeof(struct sctp_sndrcvinfo));
    struct sctp_sndrcvinfo *info = (struct sctp_sndrcvinfo *)CMSG_DATA(header);
    info->sinfo_stream = stream;
    info->sinfo_ppid = htonl(ppid);
    info->sinfo_flags = unordered ? SCTP_UNORDERED : 0;
    if (most_retransmissions >= 0) {
        info->sinfo_flags |= SCTP_PR_SCTP_RTX;
        info->sinfo_timetolive = most_retransmissions;
    }
    return sendmsg(association, &message, MSG_NOSIGNAL);
}

enum received stack_receive(void *buffer, size_t size, struct what *what) {
    for (;;) {
        char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))];
        struct iovec part = {.iov_base = buffer, .iov_len = size};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t got = recvmsg(association, &message, 0);
        if (got < 0) {
            snprintf(what->end, sizeof what->end, "error %s", strerror(errno));
            return ENDED;
        }
        if (got == 0) {
            snprintf(what->end, sizeof what->end, "end of data");
            return ENDED;
        }
        if (message.msg_flags & MSG_NOTIFICATION) {
            union sctp_notification *note = part.iov_base;
            if (note->sn_header.sn_type != SCTP_ASSOC_CHANGE)
                continue;
            struct sctp_assoc_change *change = &note->sn_assoc_change;
            if (change->sac_state == SCTP_SHUTDOWN_COMP) {
                snprintf(what->end, sizeof what->end, "shutdown complete");
                return ENDED;
            }
            if (change->sac_state == SCTP_COMM_LOST) {
                /* The causes of the ABORT chunk: code, length, text. */
                const unsigned char *causes = change->sac_info;
                int info = got - (int)sizeof *change;
                int cause = info >= 4 ? causes[0] << 8 | causes[1] : 0;
                int text = info >= 4 ? (causes[2] << 8 | causes[3]) - 4 : 0;
                if (text < 0 || text > info - 4)
                    text = 0;
                snprintf(what->end, sizeof what->end, "communication lost, cause %d %.*s", cause, text,
                         info >= 4 ? (const char *)causes + 4 : "");
                return ENDED;
            }
            continue;
        }
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level != IPPROTO_SCTP || header->cmsg_type != SCTP_SNDRCV)
                continue;
            struct sctp_sndrcvinfo *info = (struct sctp_sndrcvinfo *)CMSG_DATA(header);
            what->stream = info->sinfo_stream;
            what->ppid = ntohl(info->sinfo_ppid);
            what->unordered = info->sinfo_flags & SCTP_UNORDERED;
        }
        what->len = got;
        what->is_last = !!(message.msg_flags & MSG_EOR);
        return MESSAGE;
    }
}

int stack_shutdown(void) { return shutdown(association, SHUT_WR); }

/* Flags for it in a message are for one-to-many sockets alone. */
int stack_abort(void) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    return setsockopt(association, SOL_SOCKET, SO_LINGER, &none, sizeof none) < 0 ? -1 : close(association);
}

const char *stack_path(struct sockaddr_in address) {
    static const char *const states[] = {"inactive", "potentially failed", "active", "unconfirmed"};
    struct sctp_paddrinfo info = {0};
    socklen_t len = sizeof info;
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof peer;
    if (getpeername(association, (struct sockaddr *)&peer, &peer_len) < 0)
        return NULL;
    address.sin_port = peer.sin_port;
    memcpy(&info.spinfo_address, &address, sizeof address);
    if (getsockopt(association, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &len) < 0)
        return NULL;
    return info.spinfo_state >= 0 && info.spinfo_state < 4 ? states[info.spinfo_state] : "unknown";
}

int stack_set(const char *name, const char *value) {
    char path[128];
    snprintf(path, sizeof path, "/proc/sys/net/sctp/%s", name);
    int file = open(path, O_WRONLY);
    if (file < 0)
        return -1;
    ssize_t written = write(file, value, strlen(value));
    close(file);
    return written < 0 ? -1 : 0;
}

int stack_reset(int stream) {
    char room[sizeof(struct sctp_reset_streams) + sizeof(uint16_t)] = {0};
    struct sctp_reset_streams *reset = (void *)room;
    reset->srs_flags = SCTP_STREAM_RESET_OUTGOING;
    reset->srs_number_streams = 1;
    reset->srs_stream_list[0] = stream;
    return setsockopt(association, IPPROTO_SCTP, SCTP_RESET_STREAMS, room, sizeof room);
}

int stack_add(int outbound, int inbound) {
    struct sctp_add_streams add = {.sas_outstrms = outbound, .sas_instrms = inbound};
    return setsockopt(association, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add);
}

int stack_change(enum change change, struct sockaddr_in address) {
    struct sctp_setpeerprim first = {0};
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    if (getsockname(association, (struct sockaddr *)&own, &len) < 0)
        return -1;
    address.sin_port = own.sin_port;
    switch (change) {
    case ADD:
        return setsockopt(association, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, &address, sizeof address);
    case REMOVE:
        return setsockopt(association, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_REM, &address, sizeof address);
    default:
        memcpy(&first.sspp_addr, &address, sizeof address);
        return setsockopt(association, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &first, sizeof first);
    }
}
