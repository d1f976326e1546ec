/* Calls of one-to-one style and what they return, between two namespaces: "server" and "client ADDRESS". Exit code 0: all as expected. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 7000

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: errno %d (%s)\n", __LINE__, #condition, errno, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, ip, &addr.sin_addr) == 1);
    return addr;
}

static short ready(int fd, short events, int timeout) {
    struct pollfd asked = {.fd = fd, .events = events};
    CHECK(poll(&asked, 1, timeout) >= 0);
    return asked.revents;
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &len) == 0 && len == sizeof value);
    return value;
}

static int listening(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(fd >= 0);
    struct sockaddr_in any = address("0.0.0.0", port);
    CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    CHECK(listen(fd, 5) == 0);
    return fd;
}

/* Takes one association; a child and this process read from it alternately, and no message is torn. */
static int server(void) {
    struct sctp_initmsg init = {.sinit_num_ostreams = 7, .sinit_max_instreams = 9};
    int fd = listening(PORT);
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
    struct sctp_event_subscribe events = {.sctp_data_io_event = 1, .sctp_shutdown_event = 1};
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, 8) == 0);
    CHECK(ready(fd, POLLIN, 10000) == POLLIN);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    int one = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
    CHECK(one >= 0 && len == sizeof peer && peer.sin_family == AF_INET);
    CHECK(fcntl(one, F_GETFD) == FD_CLOEXEC && fcntl(one, F_GETFL) == O_RDWR);
    CHECK(close(fd) == 0);

    /* Read in parts: it stays readable, and MSG_PEEK changes nothing. */
    char data[200000];
    struct sctp_sndrcvinfo info;
    int flags = 0;
    CHECK(ready(one, POLLIN, 10000) & POLLIN);
    int available = 0;
    CHECK(ioctl(one, FIONREAD, &available) == 0 && available == 26);
    CHECK(recv(one, data, sizeof data, MSG_PEEK) == 26);
    CHECK(sctp_recvmsg(one, data, 10, NULL, NULL, &info, &flags) == 10 && !(flags & MSG_EOR));
    CHECK(info.sinfo_stream == 3 && info.sinfo_ppid == htonl(77) && memcmp(data, "abcdefghij", 10) == 0);
    CHECK(ready(one, POLLIN, 0) & POLLIN);
    CHECK(ioctl(one, FIONREAD, &available) == 0 && available == 16);
    flags = 0;
    CHECK(sctp_recvmsg(one, data, sizeof data, NULL, NULL, &info, &flags) == 16 && (flags & MSG_EOR));
    CHECK(memcmp(data, "klmnopqrstuvwxyz", 16) == 0);

    /* 400 messages for two processes: each is whole, and all arrive. */
    int counts[2];
    CHECK(pipe(counts) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    int count = 0;
    for (;;) {
        flags = 0;
        int got = sctp_recvmsg(one, data, 1000, NULL, NULL, &info, &flags);
        CHECK(got > 0 && (flags & MSG_EOR));
        if (flags & MSG_NOTIFICATION || got == 1) break;
        CHECK(got == 1000);
        for (int i = 1; i < got; i++) CHECK(data[i] == data[0]);
        count++;
    }
    CHECK(write(counts[1], &count, sizeof count) == sizeof count);
    if (child == 0) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        CHECK(read(counts[0], &count, sizeof count) == sizeof count);
        sum += count;
    }
    CHECK(sum == 400);

    /* A long message in parts of the buffer, back as a vector; then the end. */
    CHECK(recv(one, data, sizeof data, MSG_WAITALL) > 0);
    struct iovec parts[2] = {{"par", 3}, {"ts", 2}};
    CHECK(writev(one, parts, 2) == 5);
    CHECK(recv(one, data, sizeof data, 0) >= 0);
    CHECK(close(one) == 0);
    return 0;
}

static void refused_calls(const char *ip) {
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(fd >= 0 && option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    CHECK(option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_SCTP && option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET);
    CHECK(option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0 && option(fd, IPPROTO_SCTP, SCTP_NODELAY) == 0);
    char byte = 0;
    CHECK(recv(fd, &byte, 1, 0) == -1 && errno == ENOTCONN);
    CHECK(send(fd, &byte, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(accept(fd, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(shutdown(fd, SHUT_WR) == -1 && errno == ENOTCONN);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == -1 && errno == ENOTCONN);
    CHECK(setsockopt(fd, IPPROTO_SCTP, 99, &len, sizeof len) == -1 && errno == ENOPROTOOPT);
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &len, 3) == -1 && errno == EINVAL);
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, (void *)16, 8) == -1 && errno == EFAULT);
    CHECK(bind(fd, (void *)16, sizeof peer) == -1 && errno == EFAULT);
    struct sockaddr_in other = address("192.0.2.77", 0);
    CHECK(bind(fd, (struct sockaddr *)&other, sizeof other) == -1 && errno == EADDRNOTAVAIL);
    CHECK(ready(fd, POLLIN | POLLOUT, 0) == 0);
    /* No program listens there: refused at once. */
    struct sockaddr_in closed = address(ip, PORT + 1);
    CHECK(connect(fd, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
    /* The same without waiting: the descriptor is ready when it has failed, and SO_ERROR says why. */
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    CHECK(connect(fd, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == EINPROGRESS);
    CHECK(ready(fd, POLLOUT, 10000) & POLLOUT);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED && option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(close(fd) == 0);
}

static int client(const char *ip) {
    refused_calls(ip);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_SCTP);
    CHECK(fd >= 0 && fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
    int copy = dup(fd);
    CHECK(copy >= 0 && option(copy, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_SCTP);
    struct sockaddr_in peer = address(ip, PORT);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == -1 && errno == EINPROGRESS);
    CHECK(ready(fd, POLLOUT, 10000) == POLLOUT && option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof peer) == -1 && errno == EISCONN);
    struct sctp_status status;
    socklen_t len = sizeof status;
    CHECK(getsockopt(fd, IPPROTO_SCTP, SCTP_STATUS, &status, &len) == 0 && len == sizeof status);
    CHECK(status.sstat_state == SCTP_ESTABLISHED && status.sstat_outstrms == 10);
    struct sockaddr *list;
    CHECK(sctp_getpaddrs(fd, 0, &list) >= 2 && sctp_freepaddrs(list) == 0);
    CHECK(sctp_getladdrs(fd, 0, &list) >= 2 && sctp_freeladdrs(list) == 0);
    struct sctp_paddrinfo path = {0};
    memcpy(&path.spinfo_address, &peer, sizeof peer);
    len = sizeof path;
    CHECK(sctp_opt_info(fd, 0, SCTP_GET_PEER_ADDR_INFO, &path, &len) == 0 && path.spinfo_state == SCTP_ACTIVE);

    CHECK(fcntl(fd, F_SETFL, O_RDWR) == 0);
    CHECK(sctp_sendmsg(copy, "abcdefghijklmnopqrstuvwxyz", 26, NULL, 0, htonl(77), 0, 3, 0, 0) == 26);
    CHECK(close(copy) == 0);
    usleep(200000);
    char data[150000];
    for (int i = 0; i < 400; i++) {
        memset(data, 'a' + i % 26, 1000);
        CHECK(send(fd, data, 1000, 0) == 1000);
    }
    /* The end of the numbers, for each reader. */
    CHECK(send(fd, "x", 1, 0) == 1 && send(fd, "x", 1, 0) == 1);
    CHECK(send(fd, data, 2000000, 0) == -1 && errno == EMSGSIZE);
    memset(data, 'L', sizeof data);
    CHECK(send(fd, data, sizeof data, 0) == sizeof data);
    CHECK(recv(fd, data, sizeof data, 0) == 5 && memcmp(data, "parts", 5) == 0);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(recv(fd, data, sizeof data, 0) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(fd) == 0);
    return 0;
}

int main(int count, char **words) {
    return count == 3 && strcmp(words[1], "client") == 0 ? client(words[2]) : server();
}
