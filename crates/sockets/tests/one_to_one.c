/* Calls of one-to-one style and what they return, between two namespaces: "server" and "client ADDRESS". Exit code 0: all as expected. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PORT 7000

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

    /* Two messages of one call. */
    struct iovec places[2] = {{data, 10}, {data + 10, 10}};
    struct mmsghdr both[2] = {{.msg_hdr = {.msg_iov = &places[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &places[1], .msg_iovlen = 1}}};
    CHECK(recvmmsg(one, both, 2, 0, NULL) == 2 && both[0].msg_len == 3 && both[1].msg_len == 5);
    CHECK(memcmp(data, "one", 3) == 0 && memcmp(data + 10, "three", 5) == 0);
    CHECK(recv(one, data, sizeof data, 0) == 4 && memcmp(data, "file", 4) == 0);

    /* A long message in parts of the buffer, back as a vector; then the end. */
    int total = 0;
    for (flags = 0; !(flags & MSG_EOR);) {
        int got = sctp_recvmsg(one, data + total, sizeof data - total, NULL, NULL, &info, &flags);
        CHECK(got > 0);
        total += got;
    }
    CHECK(total == 150000);
    for (int i = 0; i < total; i++) CHECK(data[i] == 'L');
    usleep(300000);
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

/* An attempt that has failed: each call says so, whatever waits in the socket. */
static void failed_attempts(const char *ip) {
    struct sockaddr_in closed = address(ip, PORT + 1);
    struct sctp_event_subscribe events = {.sctp_association_event = 1};
    for (int waits = 0; waits < 3; waits++) {
        int fd = socket(AF_INET, SOCK_STREAM | (waits == 1 ? 0 : SOCK_NONBLOCK), IPPROTO_SCTP);
        CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
        CHECK(connect(fd, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == (waits == 1 ? ECONNREFUSED : EINPROGRESS));
        CHECK(ready(fd, POLLOUT, 10000) & POLLOUT);
        if (waits == 0) CHECK(option(fd, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
        if (waits == 2) CHECK(connect(fd, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
        CHECK(connect(fd, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNABORTED);
        union sctp_notification event;
        CHECK(recv(fd, &event, sizeof event, 0) > 0 && event.sn_assoc_change.sac_state == SCTP_CANT_STR_ASSOC);
        CHECK(close(fd) == 0);
    }
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    CHECK(setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) == 0);
    CHECK(sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&closed, sizeof closed) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
}

/* Headers and vectors that no kernel would take. */
static void wrong_pointers(int fd) {
    struct iovec huge[2] = {{NULL, ~0UL / 2}, {NULL, ~0UL / 2}};
    struct msghdr message = {.msg_iov = huge, .msg_iovlen = 2};
    CHECK(sendmsg(fd, &message, 0) == -1 && errno == EINVAL && recvmsg(fd, &message, 0) == -1 && errno == EINVAL);
    message.msg_iov = (void *)17;
    CHECK(sendmsg(fd, &message, 0) == -1 && errno == EFAULT && recvmsg(fd, &message, 0) == -1 && errno == EFAULT);
    message.msg_iov = NULL;
    message.msg_iovlen = ~0UL;
    CHECK(sendmsg(fd, &message, 0) == -1 && errno == EMSGSIZE && recvmsg(fd, &message, 0) == -1 && errno == EMSGSIZE);
    CHECK(sendmsg(fd, (void *)16, 0) == -1 && errno == EFAULT && recvmsg(fd, (void *)16, 0) == -1 && errno == EFAULT);
    /* The compiler must not know them. */
    const struct iovec *volatile nowhere = (void *)16;
    volatile int negative = -1;
    CHECK(readv(fd, nowhere, 1) == -1 && errno == EFAULT && writev(fd, huge, negative) == -1 && errno == EINVAL);
    CHECK(sendfile(fd, 0, (void *)16, 10) == -1 && errno == EFAULT);
}

/* The program closes what it does not know, and uses the numbers: they are its own then. */
static void closed_descriptors(int keep) {
    for (int fd = 3; fd < 1100; fd++)
        if (fd != keep) close(fd);
    CHECK(option(keep, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_SCTP && option(keep, IPPROTO_SCTP, SCTP_NODELAY) == 0);
    CHECK(close_range(keep + 1, ~0U, 0) == 0 || errno == ENOSYS);
    CHECK(option(keep, IPPROTO_SCTP, SCTP_NODELAY) == 0);
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    for (int behind = 0; behind < 2; behind++) {
        for (int fd = 900; fd < 1024; fd++) {
            if (behind) syscall(SYS_close, fd);
            CHECK(behind ? syscall(SYS_dup3, ends[1], fd, 0) == fd : dup2(ends[1], fd) == fd);
        }
        CHECK(option(keep, IPPROTO_SCTP, SCTP_NODELAY) == 0);
        char byte;
        CHECK(read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
        for (int fd = 900; fd < 1024; fd++) close(fd);
    }
    CHECK(option(keep, IPPROTO_SCTP, SCTP_NODELAY) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void *waiting_reader(void *end) {
    char byte;
    CHECK(read(*(int *)end, &byte, 1) == 1);
    return NULL;
}

/* A thread that reads a descriptor of its own is cancelled as ever. */
static void cancelled_thread(void) {
    int ends[2];
    pthread_t thread;
    void *outcome;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, waiting_reader, &ends[0]) == 0);
    usleep(50000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &outcome) == 0 && outcome == PTHREAD_CANCELED);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number) {
    (void)number;
    alarms++;
}

static int client(const char *ip) {
    refused_calls(ip);
    failed_attempts(ip);
    cancelled_thread();
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
    wrong_pointers(fd);
    struct timeval limit = {.tv_usec = 100000}, none = {0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recv(fd, &len, 1, 0) == -1 && errno == EAGAIN);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
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
    struct iovec places[2] = {{"one", 3}, {"three", 5}};
    struct mmsghdr both[2] = {{.msg_hdr = {.msg_iov = &places[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &places[1], .msg_iovlen = 1}}};
    CHECK(sendmmsg(fd, both, 2, 0) == 2 && both[0].msg_len == 3 && both[1].msg_len == 5);
    FILE *file = tmpfile();
    off64_t offset = 2;
    CHECK(file && fputs("a file", file) >= 0 && fflush(file) == 0);
    CHECK(sendfile64(fd, fileno(file), &offset, 100) == 4 && offset == 6);
    CHECK(fclose(file) == 0);
    CHECK(send(fd, data, 2000000, 0) == -1 && errno == EMSGSIZE);
    memset(data, 'L', sizeof data);
    CHECK(send(fd, data, sizeof data, 0) == sizeof data);
    /* A signal with SA_RESTART does not end a call that waits. */
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(recv(fd, data, sizeof data, 0) == 5 && memcmp(data, "parts", 5) == 0 && alarms == 1);
    closed_descriptors(fd);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(recv(fd, data, sizeof data, 0) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(close(fd) == 0);
    return 0;
}

int main(int count, char **words) {
    return count == 3 && strcmp(words[1], "client") == 0 ? client(words[2]) : server();
}
