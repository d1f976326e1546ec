/* usrsctp over raw IP sockets; the kernel beneath it knows nothing of SCTP. */
#include "stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <usrsctp.h>

static struct socket *listener;
static struct socket *association;

int stack_start(void) {
    usrsctp_init(0, NULL, NULL);
    /* More than that under way overflows its raw socket, and what comes after bindx to an address removed, when the request for
     * that has to wait for the answer to one that got lost, is answered with ABORT; not as RFC 5061 has it (5.3). */
    usrsctp_sysctl_set_sctp_recvspace(32768);
    return 0;
}

/* Not in its header. */
#ifndef SCTP_INTERLEAVING_SUPPORTED
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif

/* What a socket offers beyond RFC 9260. */
static int extend(struct socket *so) {
    struct sctp_assoc_value on = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1};
    struct sctp_assoc_value changes = {
        .assoc_id = SCTP_FUTURE_ASSOC,
        .assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ};
    int all = 2;
    if (interleaving &&
        (usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &all, sizeof all) < 0 ||
         usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &on, sizeof on) < 0))
        return -1;
    if (stream_changes &&
        usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &changes, sizeof changes) < 0)
        return -1;
    return 0;
}

/* A one-to-one socket that has our addresses. */
static struct socket *bound_socket(int port) {
    struct socket *so = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    struct sctp_initmsg streams = {.sinit_num_ostreams = 16, .sinit_max_instreams = 64};
    struct sctp_event changes = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = SCTP_ASSOC_CHANGE, .se_on = 1};
    int on = 1;
    if (!so)
        return NULL;
    for (int i = 0; i < local_count; i++)
        local[i].sin_port = htons(port);
    if ((send_buffer &&
         usrsctp_setsockopt(so, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer) < 0) ||
        usrsctp_bindx(so, (struct sockaddr *)local, local_count, SCTP_BINDX_ADD_ADDR) < 0 ||
        usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams) < 0 ||
        usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_EVENT, &changes, sizeof changes) < 0 ||
        usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on) < 0 || extend(so) < 0) {
        int error = errno;
        usrsctp_close(so);
        errno = error;
        return NULL;
    }
    return so;
}

int stack_listen(int port) {
    listener = bound_socket(port);
    return listener ? usrsctp_listen(listener, 4) : -1;
}

int stack_accept(void) {
    association = usrsctp_accept(listener, NULL, NULL);
    return association ? 0 : -1;
}

int stack_connect(struct sockaddr_in *peer, int count) {
    association = bound_socket(local_port);
    return association ? usrsctp_connectx(association, (struct sockaddr *)peer, count, NULL) : -1;
}

int stack_send(const void *data, size_t len, int stream, uint32_t ppid, int unordered) {
    struct sctp_sendv_spa all = {
        .sendv_flags = SCTP_SEND_SNDINFO_VALID,
        .sendv_sndinfo = {
            .snd_sid = stream, .snd_ppid = htonl(ppid), .snd_flags = unordered ? SCTP_UNORDERED : 0}};
    if (most_retransmissions >= 0) {
        all.sendv_flags |= SCTP_SEND_PRINFO_VALID;
        all.sendv_prinfo.pr_policy = SCTP_PR_SCTP_RTX;
        all.sendv_prinfo.pr_value = most_retransmissions;
    }
    return usrsctp_sendv(association, data, len, NULL, 0, &all, sizeof all, SCTP_SENDV_SPA, 0);
}

enum received stack_receive(void *buffer, size_t size, struct what *what) {
    for (;;) {
        struct sctp_rcvinfo info = {0};
        socklen_t info_len = sizeof info;
        unsigned int info_type = 0;
        int flags = 0;
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from;
        ssize_t got = usrsctp_recvv(association, buffer, size, (struct sockaddr *)&from, &from_len,
                                    &info, &info_len, &info_type, &flags);
        if (got < 0) {
            snprintf(what->end, sizeof what->end, "error %s", strerror(errno));
            return ENDED;
        }
        if (got == 0) {
            snprintf(what->end, sizeof what->end, "end of data");
            return ENDED;
        }
        if (flags & MSG_NOTIFICATION) {
            union sctp_notification *note = (void *)(buffer);
            if (note->sn_header.sn_type != SCTP_ASSOC_CHANGE)
                continue;
            struct sctp_assoc_change *change = &note->sn_assoc_change;
            if (change->sac_state == SCTP_SHUTDOWN_COMP) {
                snprintf(what->end, sizeof what->end, "shutdown complete");
                return ENDED;
            }
            if (change->sac_state == SCTP_COMM_LOST) {
                /* The ABORT chunk: header, then causes: code, length, text. */
                const unsigned char *cause = change->sac_info + 4;
                int info = got - (int)sizeof *change - 4;
                int text = info >= 4 ? (cause[2] << 8 | cause[3]) - 4 : 0;
                if (text < 0 || text > info - 4)
                    text = 0;
                snprintf(what->end, sizeof what->end, "communication lost, cause %d %.*s", change->sac_error, text,
                         info >= 4 ? (const char *)cause + 4 : "");
                return ENDED;
            }
            continue;
        }
        if (info_type == SCTP_RECVV_RCVINFO) {
            what->stream = info.rcv_sid;
            what->ppid = ntohl(info.rcv_ppid);
            what->unordered = info.rcv_flags & SCTP_UNORDERED;
        }
        what->len = got;
        what->is_last = !!(flags & MSG_EOR);
        return MESSAGE;
    }
}

int stack_shutdown(void) { return usrsctp_shutdown(association, SHUT_WR); }

int stack_abort(void) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    if (usrsctp_setsockopt(association, SOL_SOCKET, SO_LINGER, &none, sizeof none) < 0)
        return -1;
    usrsctp_close(association);
    return 0;
}

const char *stack_path(struct sockaddr_in address) {
    struct sctp_paddrinfo info = {0};
    socklen_t len = sizeof info;
    struct sockaddr *peers;
    int count = usrsctp_getpaddrs(association, 0, &peers);
    if (count <= 0)
        return NULL;
    address.sin_port = ((struct sockaddr_in *)peers)->sin_port;
    usrsctp_freepaddrs(peers);
    memcpy(&info.spinfo_address, &address, sizeof address);
    if (usrsctp_getsockopt(association, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &len) < 0)
        return NULL;
    if (info.spinfo_state & SCTP_UNCONFIRMED)
        return "unconfirmed";
    return info.spinfo_state & SCTP_ACTIVE ? "active" : "inactive";
}

int stack_set(const char *name, const char *value) {
    uint32_t number = atoi(value);
    if (!strcmp(name, "rto_min"))
        return usrsctp_sysctl_set_sctp_rto_min_default(number);
    if (!strcmp(name, "hb_interval"))
        return usrsctp_sysctl_set_sctp_heartbeat_interval_default(number);
    if (!strcmp(name, "path_max_retrans"))
        return usrsctp_sysctl_set_sctp_path_rtx_max_default(number);
    if (!strcmp(name, "auth_enable"))
        return usrsctp_sysctl_set_sctp_auth_enable(number);
    if (!strcmp(name, "addip_enable"))
        return usrsctp_sysctl_set_sctp_asconf_enable(number);
    if (!strcmp(name, "ecn_enable"))
        return usrsctp_sysctl_set_sctp_ecn_enable(number);
    if (!strcmp(name, "nrsack_enable"))
        return usrsctp_sysctl_set_sctp_nrsack_enable(number);
    errno = ENOENT;
    return -1;
}

int stack_reset(int stream) {
    char room[sizeof(struct sctp_reset_streams) + sizeof(uint16_t)] = {0};
    struct sctp_reset_streams *reset = (void *)room;
    reset->srs_flags = SCTP_STREAM_RESET_OUTGOING;
    reset->srs_number_streams = 1;
    reset->srs_stream_list[0] = stream;
    return usrsctp_setsockopt(association, IPPROTO_SCTP, SCTP_RESET_STREAMS, room, sizeof room);
}

int stack_add(int outbound, int inbound) {
    struct sctp_add_streams add = {.sas_outstrms = outbound, .sas_instrms = inbound};
    return usrsctp_setsockopt(association, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add);
}

int stack_change(enum change change, struct sockaddr_in address) {
    struct sctp_setpeerprim first = {0};
    struct sockaddr *own;
    int count = usrsctp_getladdrs(association, 0, &own);
    if (count <= 0)
        return -1;
    address.sin_port = ((struct sockaddr_in *)own)->sin_port;
    usrsctp_freeladdrs(own);
    switch (change) {
    case ADD:
        return usrsctp_bindx(association, (struct sockaddr *)&address, 1, SCTP_BINDX_ADD_ADDR);
    case REMOVE:
        return usrsctp_bindx(association, (struct sockaddr *)&address, 1, SCTP_BINDX_REM_ADDR);
    default:
        memcpy(&first.sspp_addr, &address, sizeof address);
        return usrsctp_setsockopt(association, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &first, sizeof first);
    }
}
