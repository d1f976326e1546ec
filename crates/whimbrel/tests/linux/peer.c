/*
 * The first and only process of a User Mode Linux: an SCTP user that does what lines on the first serial line say and answers
 * each with one line, "= ..." if it went well and "! ..." if not. When the line is hung up, it turns the machine off. The SCTP is
 * that of kernel.c or of usrsctp.c.
 *
 * Arguments: release folder of the kernel modules, addresses of the network devices vec0, vec1, ...
 */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
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

#define MAX_MESSAGE (1 << 20)
#define MAX_ADDRESSES 8
#define MAX_PLAN 8
#define MAX_WORDS 16
#define MAX_STREAMS 128

static int serial = -1;
static struct sockaddr_in addresses[MAX_ADDRESSES];
struct sockaddr_in *local = addresses;
int local_count;
int most_retransmissions = -1;
int local_port;
int send_buffer;
int interleaving;
int stream_changes;
static char buffer[MAX_MESSAGE];

/* Action after the given number of returned messages. */
static struct {
    long at;
    enum change change;
    struct sockaddr_in address;
} plan[MAX_PLAN];
static int planned;

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

int load_module(const char *name, const char *parameters) {
    char path[256];
    snprintf(path, sizeof path, "/modules/kernel/%s.ko", name);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return failed(path);
    int result = syscall(SYS_finit_module, file, parameters, 0);
    close(file);
    return result < 0 && errno != EEXIST ? failed(path) : 0;
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

/* Whether devices get several packets as one (generic segmentation offload). */
static int segment_at_devices(int on) {
    for (int i = 0; i < local_count; i++) {
        struct ethtool_value value = {.cmd = ETHTOOL_SGSO, .data = on};
        struct ifreq request = {.ifr_data = (void *)&value};
        int control = socket(AF_INET, SOCK_DGRAM, 0);
        snprintf(request.ifr_name, IFNAMSIZ, "vec%d", i);
        int result = ioctl(control, SIOCETHTOOL, &request);
        close(control);
        if (result < 0)
            return -1;
    }
    return 0;
}

static int boot(const char *release, char **devices, int count) {
    if (mount("proc", "/proc", "proc", 0, "") < 0)
        return failed("mounting /proc");
    if (mount("hostfs", "/modules", "hostfs", MS_RDONLY, release) < 0)
        return failed("mounting the modules");
    if (set_up("lo", "127.0.0.1") < 0)
        return -1;
    for (int i = 0; i < count && i < MAX_ADDRESSES; i++) {
        char device[16];
        snprintf(device, sizeof device, "vec%d", i);
        if (set_up(device, devices[i]) < 0)
            return -1;
        local[local_count++] = socket_address(devices[i], 0);
    }
    return 0;
}

/* Says how something went. */
static void report(int result, const char *verb, const char *done) {
    if (result < 0)
        failed(verb);
    else
        answer("= %s", done);
}

static void do_bind(char **words, int count) {
    local_count = 0;
    for (int i = 1; i < count && i <= MAX_ADDRESSES; i++)
        local[local_count++] = socket_address(words[i], 0);
    answer("= bound");
}

static void do_connect(char **words, int count) {
    struct sockaddr_in peer[MAX_ADDRESSES];
    int peers = count - 2 < MAX_ADDRESSES ? count - 2 : MAX_ADDRESSES;
    for (int i = 0; i < peers; i++)
        peer[i] = socket_address(words[i + 2], atoi(words[1]));
    report(stack_connect(peer, peers), "connect", "connected");
}

/* The state of one of the peer's addresses. */
static void do_path(const char *address) {
    const char *state = stack_path(socket_address(address, 0));
    report(state ? 0 : -1, "path", state);
}

static void do_plan(const char *at, const char *what, const char *address) {
    if (planned == MAX_PLAN) {
        answer("! too many plans");
        return;
    }
    plan[planned].at = atol(at);
    plan[planned].change = !strcmp(what, "add") ? ADD : !strcmp(what, "primary") ? PRIMARY : REMOVE;
    plan[planned++].address = socket_address(address, 0);
    answer("= planned");
}

/* Does what is planned for now. */
static int keep_plan(long messages) {
    static const char *const names[] = {"adding", "preferring", "removing"};
    for (int i = 0; i < planned; i++)
        if (plan[i].at == messages && stack_change(plan[i].change, plan[i].address) < 0)
            return failed(names[plan[i].change]);
    return 0;
}

/* Messages of which only parts have come: with I-DATA (RFC 8260), parts of other messages may come between them. */
static struct {
    char *data;
    size_t len;
} parts[2 * MAX_STREAMS];

/* The next whole message in `buffer`. */
static enum received receive(struct what *what) {
    for (;;) {
        if (stack_receive(buffer, sizeof buffer, what) == ENDED)
            return ENDED;
        int at = what->stream % MAX_STREAMS * 2 + !!what->unordered;
        if (what->is_last && !parts[at].len)
            return MESSAGE;
        if (parts[at].len + what->len > MAX_MESSAGE)
            parts[at].len = 0;
        if (!parts[at].data)
            parts[at].data = malloc(MAX_MESSAGE);
        memcpy(parts[at].data + parts[at].len, buffer, what->len);
        parts[at].len += what->len;
        if (what->is_last) {
            what->len = parts[at].len;
            memcpy(buffer, parts[at].data, what->len);
            parts[at].len = 0;
            return MESSAGE;
        }
    }
}

/* Returns every message on its stream; stops after the given number, or when the association ends. */
static void do_echo(long most) {
    struct what what = {0};
    long messages = 0, bytes = 0;
    while (messages < most) {
        if (receive(&what) == ENDED) {
            answer("= echoed %ld messages, %ld bytes, %s", messages, bytes, what.end);
            return;
        }
        if (stack_send(buffer, what.len, what.stream, what.ppid, what.unordered) < 0) {
            failed("sending");
            return;
        }
        messages++;
        bytes += what.len;
        if (keep_plan(messages) < 0)
            return;
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
        if (stack_send(buffer, len, i % 10, 1000000 + i, i % 5 == 0) < 0) {
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
    while (receive(&what) == MESSAGE)
        messages++;
    answer("= %s after %ld messages", what.end, messages);
}

static void do_shutdown(void) {
    if (stack_shutdown() < 0)
        failed("shutdown");
    else
        do_end();
}

static void do_set(const char *name, const char *value) {
    int number = atoi(value);
    if (!strcmp(name, "most_retransmissions"))
        most_retransmissions = number;
    else if (!strcmp(name, "local_port"))
        local_port = number;
    else if (!strcmp(name, "send_buffer"))
        send_buffer = number;
    else if (!strcmp(name, "interleaving"))
        interleaving = number;
    else if (!strcmp(name, "stream_changes"))
        stream_changes = number;
    else if (!strcmp(name, "gso") ? segment_at_devices(number) < 0 : stack_set(name, value) < 0) {
        failed(name);
        return;
    }
    answer("= set");
}

static void obey(char *line) {
    char *words[MAX_WORDS] = {0};
    int count = 0;
    for (char *word = strtok(line, " "); word && count < MAX_WORDS; word = strtok(NULL, " "))
        words[count++] = word;
    const char *verb = count ? words[0] : "";
    if (!strcmp(verb, "bind") && count >= 2)
        do_bind(words, count);
    else if (!strcmp(verb, "listen") && count == 2)
        report(stack_listen(atoi(words[1])), verb, "listening");
    else if (!strcmp(verb, "accept") && count == 1)
        report(stack_accept(), verb, "accepted");
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
        report(stack_abort(), verb, "aborted");
    else if (!strcmp(verb, "path") && count == 2)
        do_path(words[1]);
    else if (!strcmp(verb, "set") && count == 3)
        do_set(words[1], words[2]);
    else if (!strcmp(verb, "reset") && count == 2)
        report(stack_reset(atoi(words[1])), verb, "reset");
    else if (!strcmp(verb, "add") && count == 3)
        report(stack_add(atoi(words[1]), atoi(words[2])), verb, "added");
    else if (!strcmp(verb, "plan") && count == 4)
        do_plan(words[1], words[2], words[3]);
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
    if (boot(argv[1], argv + 2, argc - 2) < 0)
        turn_off();

    /* A child does the work, so that nothing it waits for keeps us from noticing the end. */
    int pipe_ends[2];
    char line[512];
    if (pipe(pipe_ends) < 0 || fork() == 0) {
        FILE *input = fdopen(pipe_ends[0], "r");
        close(pipe_ends[1]);
        if (stack_start() < 0)
            turn_off();
        answer("= ready");
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
