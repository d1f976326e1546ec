/*
 * The first and only process of a User Mode Linux: an SCTP user that does what lines on the first serial line say and answers
 * each with one line, "= ..." if it went well and "! ..." if not. When the line is hung up, it turns the machine off.
 *
 * Arguments: release folder of the kernel modules, addresses of the network devices vec0, vec1, ...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sctp.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define MAX_MESSAGE 65536
#define MAX_ADDRESSES 8
#define MAX_WORDS 16

static int serial = -1;
static int listener = -1;
static int association = -1;
static int address_count;
static char **addresses;
static char buffer[MAX_MESSAGE];

static void answer(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (len > (int)sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    for (int at = 0; at < len;) {
        ssize_t written = write(serial, line + at, len - at);
        if (written <= 0)
            return;
        at += written;
    }
}

static void turn_off(void) {
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static int failed(const char *what) {
    answer("! %s: %s", what, strerror(errno));
    return -1;
}

static int load_module(const char *name, const char *parameters) {
    char path[256];
    snprintf(path, sizeof path, "/modules/kernel/%s.ko", name);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return failed(path);
    int result = syscall(SYS_finit_module, file, parameters, 0);
    close(file);
    return result < 0 && errno != EEXIST ? failed(path) : 0;
}

static int write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0)
        return failed(path);
    ssize_t written = write(file, text, strlen(text));
    close(file);
    return written < 0 ? failed(path) : 0;
}

static struct sockaddr_in socket_address(const char *text, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

/* A device gets its address, a network of 24 bits, and is set up. */
static int set_up(const char *device, const char *address) {
    struct ifreq request = {0};
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in in = socket_address(address, 0);
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    memcpy(&request.ifr_addr, &in, sizeof in);
    if (ioctl(control, SIOCSIFADDR, &request) < 0)
        return failed("SIOCSIFADDR");
    in = socket_address("255.255.255.0", 0);
    memcpy(&request.ifr_netmask, &in, sizeof in);
    if (ioctl(control, SIOCSIFNETMASK, &request) < 0)
        return failed("SIOCSIFNETMASK");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(control, SIOCSIFFLAGS, &request) < 0)
        return failed("SIOCSIFFLAGS");
    close(control);
    return 0;
}

static int boot(const char *release) {
    /* Those that sctp needs come first, as modules.dep has it. */
    static const char *const modules[][2] = {
        {"crypto/hmac", ""},
        {"net/ipv4/udp_tunnel", ""},
        {"lib/crc-ccitt", ""},
        {"net/ipv6/ipv6", "disable_ipv6=1"},
        {"net/ipv6/ip6_udp_tunnel", ""},
        {"net/sctp/sctp", ""},
    };
    if (mount("proc", "/proc", "proc", 0, "") < 0)
        return failed("mounting /proc");
    if (mount("hostfs", "/modules", "hostfs", MS_RDONLY, release) < 0)
        return failed("mounting the modules");
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (load_module(modules[i][0], modules[i][1]) < 0)
            return -1;
    if (set_up("lo", "127.0.0.1") < 0)
        return -1;
    for (int i = 0; i < address_count; i++) {
        char device[16];
        snprintf(device, sizeof device, "vec%d", i);
        if (set_up(device, addresses[i]) < 0)
            return -1;
    }
    return 0;
}

/* A one-to-one socket that has all our addresses. */
static int bound_socket(int port) {
    struct sockaddr_in all[MAX_ADDRESSES];
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (fd < 0)
        return failed("socket");
    for (int i = 0; i < address_count; i++)
        all[i] = socket_address(addresses[i], port);
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, all, address_count * sizeof *all) < 0) {
        close(fd);
        return failed("sctp_bindx");
    }
    struct sctp_initmsg streams = {.sinit_num_ostreams = 16, .sinit_max_instreams = 16};
    struct sctp_event_subscribe events = {
        .sctp_data_io_event = 1, .sctp_association_event = 1, .sctp_shutdown_event = 1};
    if (setsockopt(fd, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams) < 0 ||
        setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof events) < 0) {
        close(fd);
        return failed("setsockopt");
    }
    return fd;
}

static void do_listen(int port) {
    listener = bound_socket(port);
    if (listener < 0)
        return;
    if (listen(listener, 4) < 0)
        failed("listen");
    else
        answer("= listening");
}

static void do_accept(void) {
    association = accept(listener, NULL, NULL);
    if (association < 0)
        failed("accept");
    else
        answer("= accepted");
}

static void do_connect(char **words, int count) {
    struct sockaddr_in peer[MAX_ADDRESSES];
    int peers = count - 2 < MAX_ADDRESSES ? count - 2 : MAX_ADDRESSES;
    association = bound_socket(0);
    if (association < 0)
        return;
    for (int i = 0; i < peers; i++)
        peer[i] = socket_address(words[i + 2], atoi(words[1]));
    if (setsockopt(association, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, peer, peers * sizeof *peer) < 0)
        failed("sctp_connectx");
    else
        answer("= connected");
}

static int send_message(const void *data, size_t len, int stream, uint32_t ppid, int flags) {
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
    info->sinfo_flags = flags;
    return sendmsg(association, &message, MSG_NOSIGNAL);
}

enum received { MESSAGE, ENDED };

struct what {
    size_t len;
    int stream, unordered;
    uint32_t ppid;
    char end[128]; /* how the association ended */
};

/* The next whole message, or how the association ended. */
static enum received receive_message(struct what *what) {
    size_t len = 0;
    for (;;) {
        char control[CMSG_SPACE(sizeof(struct sctp_sndrcvinfo))];
        struct iovec part = {.iov_base = buffer + len, .iov_len = sizeof buffer - len};
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
        len += got;
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level != IPPROTO_SCTP || header->cmsg_type != SCTP_SNDRCV)
                continue;
            struct sctp_sndrcvinfo *info = (struct sctp_sndrcvinfo *)CMSG_DATA(header);
            what->stream = info->sinfo_stream;
            what->ppid = ntohl(info->sinfo_ppid);
            what->unordered = info->sinfo_flags & SCTP_UNORDERED;
        }
        if (message.msg_flags & MSG_EOR) {
            what->len = len;
            return MESSAGE;
        }
    }
}

/* Returns every message on its stream; stops after so many, or when the association ends. */
static void do_echo(long most) {
    struct what what = {0};
    long messages = 0, bytes = 0;
    while (messages < most) {
        if (receive_message(&what) == ENDED) {
            answer("= echoed %ld messages, %ld bytes, %s", messages, bytes, what.end);
            return;
        }
        if (send_message(buffer, what.len, what.stream, what.ppid, what.unordered ? SCTP_UNORDERED : 0) < 0) {
            failed("sending");
            return;
        }
        messages++;
        bytes += what.len;
    }
    answer("= echoed %ld messages, %ld bytes", messages, bytes);
}

/* Sends messages whose content follows from their number; so does the other end's idea of them. */
static void do_send(long count) {
    long bytes = 0;
    for (long i = 0; i < count; i++) {
        size_t len = 1 + i * 911 % 9000;
        for (size_t at = 0; at < len; at++)
            buffer[at] = (char)(at * 7 + i);
        if (send_message(buffer, len, i % 10, 1000000 + i, i % 5 ? 0 : SCTP_UNORDERED) < 0) {
            failed("sending");
            return;
        }
        bytes += len;
    }
    answer("= sent %ld messages, %ld bytes", count, bytes);
}

/* Waits until the association has ended. */
static void do_end(void) {
    struct what what = {0};
    long messages = 0;
    while (receive_message(&what) == MESSAGE)
        messages++;
    answer("= %s after %ld messages", what.end, messages);
}

static void do_shutdown(void) {
    if (shutdown(association, SHUT_WR) < 0)
        failed("shutdown");
    else
        do_end();
}

/* Flags for it in a message are for one-to-many sockets alone. */
static void do_abort(void) {
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    if (setsockopt(association, SOL_SOCKET, SO_LINGER, &none, sizeof none) < 0 || close(association) < 0)
        failed("abort");
    else
        answer("= aborted");
}

/* The state of one of the peer's addresses. */
static void do_path(const char *address) {
    static const char *const states[] = {"inactive", "potentially failed", "active", "unconfirmed"};
    struct sctp_paddrinfo info = {0};
    struct sockaddr_in in = socket_address(address, 0);
    socklen_t len = sizeof info;
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof peer;
    if (getpeername(association, (struct sockaddr *)&peer, &peer_len) < 0) {
        failed("getpeername");
        return;
    }
    in.sin_port = peer.sin_port;
    memcpy(&info.spinfo_address, &in, sizeof in);
    if (getsockopt(association, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &len) < 0)
        failed("SCTP_GET_PEER_ADDR_INFO");
    else
        answer("= %s", info.spinfo_state >= 0 && info.spinfo_state < 4 ? states[info.spinfo_state] : "unknown");
}

static void do_sysctl(const char *name, const char *value) {
    char path[128];
    snprintf(path, sizeof path, "/proc/sys/net/sctp/%s", name);
    if (write_file(path, value) == 0)
        answer("= set");
}

static void obey(char *line) {
    char *words[MAX_WORDS] = {0};
    int count = 0;
    for (char *word = strtok(line, " "); word && count < MAX_WORDS; word = strtok(NULL, " "))
        words[count++] = word;
    const char *verb = count ? words[0] : "";
    if (!strcmp(verb, "listen") && count == 2)
        do_listen(atoi(words[1]));
    else if (!strcmp(verb, "accept") && count == 1)
        do_accept();
    else if (!strcmp(verb, "connect") && count >= 3)
        do_connect(words, count);
    else if (!strcmp(verb, "echo") && count == 2)
        do_echo(atol(words[1]));
    else if (!strcmp(verb, "send") && count == 2)
        do_send(atol(words[1]));
    else if (!strcmp(verb, "end") && count == 1)
        do_end();
    else if (!strcmp(verb, "shutdown") && count == 1)
        do_shutdown();
    else if (!strcmp(verb, "abort") && count == 1)
        do_abort();
    else if (!strcmp(verb, "path") && count == 2)
        do_path(words[1]);
    else if (!strcmp(verb, "sysctl") && count == 3)
        do_sysctl(words[1], words[2]);
    else
        answer("! unknown: %s", verb);
}

int main(int argc, char **argv) {
    struct termios raw;
    serial = open("/dev/ttyS0", O_RDWR);
    if (serial < 0) {
        fprintf(stderr, "peer: /dev/ttyS0: %s\n", strerror(errno));
        turn_off();
    }
    tcgetattr(serial, &raw);
    cfmakeraw(&raw);
    tcsetattr(serial, TCSANOW, &raw);
    address_count = argc - 2 < MAX_ADDRESSES ? argc - 2 : MAX_ADDRESSES;
    addresses = argv + 2;
    if (boot(argv[1]) < 0)
        turn_off();
    answer("= ready");

    /* A child does the work, so that nothing it waits for keeps us from noticing the end. */
    int pipe_ends[2];
    char line[512];
    if (pipe(pipe_ends) < 0 || fork() == 0) {
        FILE *input = fdopen(pipe_ends[0], "r");
        close(pipe_ends[1]);
        while (fgets(line, sizeof line, input)) {
            line[strcspn(line, "\n")] = 0;
            obey(line);
        }
        exit(0);
    }
    for (;;) {
        ssize_t got = read(serial, line, sizeof line);
        if (got <= 0 || write(pipe_ends[1], line, got) != got)
            turn_off();
    }
}
