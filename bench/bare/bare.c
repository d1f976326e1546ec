/* Moves the packets of a transfer with the system calls that the driver of crates/whimbrel uses, and without a protocol: what the socket
 * case without GRO costs at least. One process receives and sends an answer of 48 bytes for every two packets, the other one sends bursts
 * of full packets by a timer and receives the answers. bench/run puts the relay of the example `long_path` between them.
 *
 *     bare receive ADDRESS PACKETS             prints its port, then its CPU seconds
 *     bare send LOCAL REMOTE PORT PACKETS MBIT prints its CPU seconds
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32
#define BUFFER 65536
#define PACKET 1472
#define ANSWER 48
/* Timer of the driver, in nanoseconds. */
#define GRANULARITY 250000

static char buffers[BATCH][BUFFER], controls[BATCH][128];
static struct iovec parts[BATCH];
static struct mmsghdr messages[BATCH];
static struct sockaddr_in from[BATCH];
static char contents[64 * PACKET];

static void check(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static double cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A socket with the options that quinn-udp sets. */
static int bind_to(const char *ip)
{
    int on = 1, size = 4 << 20, fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in local = {.sin_family = AF_INET};
    check(inet_pton(AF_INET, ip, &local.sin_addr) - 1, "address");
    check(bind(fd, (struct sockaddr *)&local, sizeof local), "bind");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
    return fd;
}

/* Receives one batch; returns the number of packets. */
static long receive(int fd)
{
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){buffers[i], BUFFER};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &parts[i],
                                              .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = sizeof controls[i]};
    }
    int count = recvmmsg(fd, messages, BATCH, 0, NULL);
    long packets = 0;
    for (int i = 0; i < count; i++) {
        int segment = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&messages[i].msg_hdr); c; c = CMSG_NXTHDR(&messages[i].msg_hdr, c))
            if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
                memcpy(&segment, CMSG_DATA(c), sizeof segment);
        packets += segment ? (messages[i].msg_len + segment - 1) / segment : 1;
    }
    return packets;
}

/* Sends packets of equal length with one system call. */
static void send_all(int fd, const struct sockaddr_in *to, long count, int len)
{
    union {
        char bytes[CMSG_SPACE(sizeof(unsigned short))];
        struct cmsghdr align;
    } control = {{0}};
    while (count > 0) {
        long now = count > 44 ? 44 : count;
        struct iovec part = {contents, now * len};
        struct msghdr message = {.msg_name = (void *)to, .msg_namelen = sizeof *to, .msg_iov = &part, .msg_iovlen = 1};
        if (now > 1) {
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof control.bytes;
            struct cmsghdr *c = CMSG_FIRSTHDR(&message);
            unsigned short segment = len;
            c->cmsg_level = SOL_UDP;
            c->cmsg_type = UDP_SEGMENT;
            c->cmsg_len = CMSG_LEN(sizeof segment);
            memcpy(CMSG_DATA(c), &segment, sizeof segment);
        }
        sendmsg(fd, &message, 0);
        count -= now;
    }
}

static int watch(int fd, int other)
{
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    check(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event), "epoll");
    if (other >= 0)
        check(epoll_ctl(poll, EPOLL_CTL_ADD, other, &event), "epoll");
    return poll;
}

static void receiver(char **args)
{
    int fd = bind_to(args[0]), poll = watch(fd, -1);
    struct sockaddr_in local;
    socklen_t len = sizeof local;
    check(getsockname(fd, (struct sockaddr *)&local, &len), "port");
    printf("%d\n", ntohs(local.sin_port));
    fflush(stdout);
    long wanted = atol(args[1]), packets = 0, waiting = 0;
    struct epoll_event event;
    /* A few lost packets do not matter. */
    while (packets < wanted && epoll_wait(poll, &event, 1, packets ? 2000 : 10000) > 0) {
        long count;
        do {
            count = receive(fd);
            packets += count;
            waiting += count;
            send_all(fd, &from[0], waiting / 2, ANSWER);
            waiting %= 2;
        } while (count >= BATCH);
    }
    printf("%.3f %ld\n", cpu(), packets);
}

static void sender(char **args)
{
    int fd = bind_to(args[0]), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), poll = watch(fd, timer);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(args[2]))};
    check(inet_pton(AF_INET, args[1], &to.sin_addr) - 1, "address");
    long wanted = atol(args[3]), sent = 0;
    double per_second = atof(args[4]) * 1e6 / 8 / (PACKET + 28);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (sent < wanted) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long due = ((now.tv_sec - start.tv_sec) + (now.tv_nsec - start.tv_nsec) / 1e9) * per_second;
        /* The pacer of the driver sends once its burst of GRANULARITY is due. */
        if (due > wanted)
            due = wanted;
        if ((due - sent) >= per_second * GRANULARITY / 1e9 || due == wanted) {
            send_all(fd, &to, due - sent, PACKET);
            sent = due;
            struct itimerspec next = {.it_value = {0, GRANULARITY}};
            timerfd_settime(timer, 0, &next, NULL);
        }
        struct epoll_event event;
        epoll_wait(poll, &event, 1, 100);
        receive(fd);
    }
    printf("%.3f\n", cpu());
}

int main(int count, char **args)
{
    memset(contents, 0x55, sizeof contents);
    if (count == 4 && !strcmp(args[1], "receive"))
        receiver(args + 2);
    else if (count == 7 && !strcmp(args[1], "send"))
        sender(args + 2);
    else
        return 2;
    return 0;
}
