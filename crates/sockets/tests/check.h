/* What the test programs share. */
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
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: errno %d (%s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static inline struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, ip, &addr.sin_addr) == 1);
    return addr;
}

static inline short ready(int fd, short events, int timeout) {
    struct pollfd asked = {.fd = fd, .events = events};
    CHECK(poll(&asked, 1, timeout) >= 0);
    return asked.revents;
}
