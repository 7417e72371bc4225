/* Asks at a fixed rate, whatever is answered: the crowd that `overload` measures with.

   open_loop PORT RATE SECONDS CONNECTIONS BODY, the token in $JOBRUNNER_TOKEN. Each request goes over whichever
   connection has been idle for the shortest time; when none is idle, it is late. One line of JSON
   says what came of it. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 16384, EVENTS = 512, GRACE_S = 10 };

struct line { int fd, asked; size_t got; double sent_at; char said[ANSWER_MAX + 1]; };
struct times { double *seconds; long count, room; };

static int poller, idle_count, *idle;
static struct sockaddr_in server;
static struct line *lines;
static struct times made, refused;
static long other, broken, retry_missing;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void add(struct times *to, double seconds) {
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 1024;
        to->seconds = realloc(to->seconds, sizeof(double) * (size_t)to->room);
        if (!to->seconds) abort();
    }
    to->seconds[to->count++] = seconds;
}

static int by_size(const void *one, const void *two) {
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

static double at_share(struct times *of, double share) {
    if (!of->count) return 0;
    qsort(of->seconds, (size_t)of->count, sizeof(double), by_size);
    return of->seconds[(long)((double)(of->count - 1) * share)] * 1000;
}

static void open_line(int number) {
    int on = 1;
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (unsigned)number};
    lines[number].asked = 0;
    lines[number].fd = socket(AF_INET, SOCK_STREAM, 0);
    if (lines[number].fd < 0 || connect(lines[number].fd, (void *)&server, sizeof server)) {
        perror("open_loop: the service cannot be reached");
        exit(1);
    }
    setsockopt(lines[number].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_ctl(poller, EPOLL_CTL_ADD, lines[number].fd, &wanted);
    idle[idle_count++] = number;
}

/* Whether the answer is whole; if so it is counted. */
static int counted(struct line *line) {
    char *end = strstr(line->said, "\r\n\r\n");
    if (!end) return 0;
    char *length = strcasestr(line->said, "\r\nContent-Length:");
    size_t whole = (size_t)(end + 4 - line->said);
    whole += length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    if (line->got < whole) return 0;
    int status = atoi(line->said + 9);
    double took = seconds_now() - line->sent_at;
    if (status == 201) add(&made, took);
    else if (status == 503) {
        char *later = strcasestr(line->said, "\r\nRetry-After:");
        retry_missing += !(later && later < end);
        add(&refused, took);
    } else other++;
    return 1;
}

int main(int count, char **given) {
    if (count != 6 || !getenv("JOBRUNNER_TOKEN")) {
        fprintf(stderr, "JOBRUNNER_TOKEN=... open_loop PORT RATE SECONDS CONNECTIONS BODY\n");
        return 2;
    }
    double rate = atof(given[2]), lasts = atof(given[3]);
    int most = atoi(given[4]);
    char request[4096];
    int size = snprintf(request, sizeof request,
        "POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        getenv("JOBRUNNER_TOKEN"), strlen(given[5]), given[5]);
    if (size >= (int)sizeof request) return 2;
    server.sin_family = AF_INET;
    server.sin_port = htons((unsigned short)atoi(given[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    poller = epoll_create1(0);
    lines = calloc((size_t)most, sizeof *lines);
    idle = calloc((size_t)most, sizeof *idle);
    if (!lines || !idle) abort();
    for (int number = 0; number < most; number++) open_line(number);

    double began = seconds_now(), now = began;
    long sent = 0, open = 0;
    while (now - began < lasts + GRACE_S && (now - began < lasts || open)) {
        while (now - began < lasts && (double)sent < (now - began) * rate && idle_count) {
            struct line *line = lines + idle[--idle_count];
            line->asked = 1, line->got = 0, line->sent_at = seconds_now();
            if (write(line->fd, request, (size_t)size) != size) broken++;
            sent++, open++;
        }
        struct epoll_event events[EVENTS];
        int found = epoll_wait(poller, events, EVENTS, 1);
        for (int each = 0; each < found; each++) {
            int number = (int)events[each].data.u32;
            struct line *line = lines + number;
            ssize_t more = read(line->fd, line->said + line->got, ANSWER_MAX - line->got);
            if (more <= 0) {
                close(line->fd);
                if (line->asked) {
                    broken++, open--;
                    open_line(number);
                    continue;
                }
                for (int at = 0; at < idle_count; at++)
                    if (idle[at] == number) idle[at] = idle[--idle_count];
                open_line(number);
                continue;
            }
            line->got += (size_t)more;
            line->said[line->got] = 0;
            if (counted(line)) {
                line->asked = 0, open--;
                idle[idle_count++] = number;
            }
        }
        now = seconds_now();
    }
    printf("{\"sent\":%ld,\"made\":%ld,\"refused\":%ld,\"other\":%ld,\"broken\":%ld,"
           "\"unanswered\":%ld,\"without_retry_after\":%ld,\"made_p50_ms\":%.1f,"
           "\"made_p99_ms\":%.1f,\"refused_p50_ms\":%.1f,\"refused_p99_ms\":%.1f}\n",
           sent, made.count, refused.count, other, broken, open, retry_missing,
           at_share(&made, .5), at_share(&made, .99), at_share(&refused, .5),
           at_share(&refused, .99));
    return 0;
}
