/* One-to-many style between two namespaces: "server" and "client ADDRESS". Exit code 0: all as expected. */
#include "check.h"

#include <sys/syscall.h>

#define PORT 7100

static int open_socket(int flags) {
    int fd = socket(AF_INET, SOCK_SEQPACKET | flags, IPPROTO_SCTP);
    CHECK(fd >= 0);
    return fd;
}

/* Returns each message to its sender, up to "end". */
static int server(void) {
    int fd = open_socket(0);
    struct sockaddr_in any = address("0.0.0.0", PORT);
    CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 5) == 0);
    for (;;) {
        char data[1000];
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        int flags = 0;
        int got = sctp_recvmsg(fd, data, sizeof data, (struct sockaddr *)&peer, &len, NULL, &flags);
        CHECK(got > 0 && (flags & MSG_EOR) && !(flags & MSG_NOTIFICATION));
        CHECK(sctp_sendmsg(fd, data, got, (struct sockaddr *)&peer, len, 0, 0, 0, 0, 0) == got);
        if (got == 3 && memcmp(data, "end", 3) == 0) return 0;
    }
}

static int client(const char *ip) {
    struct sockaddr_in peer = address(ip, PORT), closed = address(ip, PORT + 1);
    /* What follows a connect that does not wait is sent when the association is established. */
    int fd = open_socket(SOCK_NONBLOCK);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0 || errno == EINPROGRESS);
    CHECK(sctp_sendmsg(fd, "early", 5, (struct sockaddr *)&peer, sizeof peer, 0, 0, 0, 0, 0) == 5);
    char data[1000];
    CHECK(ready(fd, POLLIN, 10000) & POLLIN);
    CHECK(recv(fd, data, sizeof data, 0) == 5 && memcmp(data, "early", 5) == 0);

    /* What no association takes is reported. */
    struct sctp_event_subscribe events = {.sctp_association_event = 1, .sctp_send_failure_event = 1};
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
    CHECK(sctp_sendmsg(fd, "lost", 4, (struct sockaddr *)&closed, sizeof closed, 0, 0, 0, 0, 77) == 4);
    union sctp_notification *event = (void *)data;
    CHECK(ready(fd, POLLIN, 10000) & POLLIN);
    CHECK(recv(fd, data, sizeof data, 0) > 0 && event->sn_header.sn_type == SCTP_ASSOC_CHANGE);
    CHECK(event->sn_assoc_change.sac_state == SCTP_CANT_STR_ASSOC);
    CHECK(ready(fd, POLLIN, 10000) & POLLIN);
    CHECK(recv(fd, data, sizeof data, 0) > 0 && event->sn_header.sn_type == SCTP_SEND_FAILED);
    CHECK(event->sn_send_failed.ssf_info.sinfo_context == 77);

    /* A call that the library does not see writes no record: the socket ends with an error. */
    CHECK(syscall(SYS_write, fd, "raw", 3) == 3 && fcntl(fd, F_SETFL, O_RDWR) == 0);
    while (recv(fd, data, sizeof data, 0) > 0) {}
    CHECK(errno == ECONNABORTED && recv(fd, data, sizeof data, 0) == 0);

    /* A connect that may wait does, and returns how it ended. */
    int other = open_socket(0);
    CHECK(connect(other, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
    CHECK(connect(other, (struct sockaddr *)&peer, sizeof peer) == 0);
    CHECK(connect(other, (struct sockaddr *)&peer, sizeof peer) == -1 && errno == EISCONN);
    CHECK(sctp_sendmsg(other, "end", 3, (struct sockaddr *)&peer, sizeof peer, 0, 0, 0, 0, 0) == 3);
    CHECK(recv(other, data, sizeof data, 0) == 3);
    CHECK(close(other) == 0 && close(fd) == 0);
    return 0;
}

int main(int count, char **words) {
    return count == 3 && strcmp(words[1], "client") == 0 ? client(words[2]) : server();
}
