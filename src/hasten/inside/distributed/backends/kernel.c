/* Ranks of one machine meet and add numbers in memory that they share. Neither Python nor torch is needed.
 *
 * A rank announces in its line how far it came: release when it writes, acquire when others read, so what it
 * wrote before is seen after, on every architecture.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { WORDS = 4 };

typedef struct {
    _Atomic int64_t step;    /* how many meetings this rank came to */
    int64_t said[2][WORDS];  /* what it is about to do, for every other collective */
    char apart[128 - 8 - 2 * WORDS * 8];
} line;

typedef int (*watch)(int peer); /* asked while waiting for a rank; not 0: give up */

static void rest(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* 0: all ranks came. 1: given up. */
int hasten_meet(line *lines, int rank, int size, int64_t step, int spins, watch watching) {
    atomic_store_explicit(&lines[rank].step, step, memory_order_release);
    for (int peer = 0; peer < size; peer++) {
        int64_t turns = 0;
        while (atomic_load_explicit(&lines[peer].step, memory_order_acquire) < step) {
            if (turns++ < spins) {
                rest();
            } else if (turns < spins + 2000) {
                sched_yield();
            } else {
                struct timespec pause = {0, 20000};
                nanosleep(&pause, 0);
                if (turns % 256 == 0 && watching(peer)) return 1;
            }
        }
    }
    return 0;
}

static float widened(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* To bfloat16, to the nearest, ties to even; what is not a number stays none. */
static uint16_t narrowed(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

#define SAME(x) (x)
enum { BLOCK = 1024 }; /* elements whose sums stay in the first cache */

/* Adds what all ranks hold of elements low to high, always in the order of ranks: the same bits everywhere. */
#define ADDING(name, type, sum, widen, narrow)                                                               \
    static void name(type *out, const char *slots, int64_t chunk, int size, int64_t low, int64_t high,       \
                     int mean) {                                                                             \
        for (; low < high; low += BLOCK) {                                                                   \
            const int64_t many = high - low < BLOCK ? high - low : BLOCK;                                    \
            const type *first = (const type *)slots + low, *second = (const type *)(slots + chunk) + low;    \
            sum total[BLOCK];                                                                                \
            for (int64_t i = 0; i < many; i++) total[i] = widen(first[i]) + widen(second[i]);                \
            for (int rank = 2; rank < size; rank++) {                                                        \
                const type *next = (const type *)(slots + rank * chunk) + low;                               \
                for (int64_t i = 0; i < many; i++) total[i] += widen(next[i]);                               \
            }                                                                                                \
            if (mean)                                                                                        \
                for (int64_t i = 0; i < many; i++) total[i] /= size;                                         \
            for (int64_t i = 0; i < many; i++) out[low + i] = narrow(total[i]);                              \
        }                                                                                                    \
    }

ADDING(add_float, float, float, SAME, SAME)
ADDING(add_double, double, double, SAME, SAME)
ADDING(add_bfloat16, uint16_t, float, widened, narrowed)
ADDING(add_int32, int32_t, int32_t, SAME, SAME)
ADDING(add_int64, int64_t, int64_t, SAME, SAME)

static void add(int type, void *out, char *slots, int64_t chunk, int size, int64_t low, int64_t high, int mean) {
    switch (type) {
        case 0: add_float(out, slots, chunk, size, low, high, mean); break;
        case 1: add_double(out, slots, chunk, size, low, high, mean); break;
        case 2: add_bfloat16(out, slots, chunk, size, low, high, mean); break;
        case 3: add_int32(out, slots, chunk, size, low, high, mean); break;
        default: add_int64(out, slots, chunk, size, low, high, mean);
    }
}

/* Which rank is about to do something else; -1 if none. */
static int other_mind(const line *lines, int rank, int size, int side) {
    for (int peer = 0; peer < size; peer++)
        if (memcmp(lines[peer].said[side], lines[rank].said[side], sizeof lines[rank].said[side])) return peer;
    return -1;
}

/* In place over `count` elements of `data`. 0: done. 1: given up. 2 + rank: that rank does something else.
 *
 * Slots: two sets of one for each rank, of `chunk` bytes, used in turn. A rank overwrites a slot only after a
 * later meeting, to which everybody came who had read it. Two ranks read each other's slot; more ranks add a
 * slice each and then fetch all slices.
 */
int hasten_all_reduce(line *lines, char *slots, int64_t chunk, int rank, int size, char *data, int64_t count,
                      int type, int mean, int64_t *step, int *set, int side, int spins, watch watching) {
    const int64_t bytes = type == 2 ? 2 : type == 0 || type == 3 ? 4 : 8, most = chunk / bytes;
    int64_t done = 0;
    do {
        const int64_t part = count - done < most ? count - done : most;
        char *here = data + done * bytes, *shared = slots + (int64_t)*set * size * chunk;
        *set ^= 1;
        memcpy(shared + rank * chunk, here, part * bytes);
        if (hasten_meet(lines, rank, size, ++*step, spins, watching)) return 1;
        if (done == 0) {
            const int other = other_mind(lines, rank, size, side);
            if (other >= 0) return 2 + other;
        }
        if (size == 2) {
            add(type, here, shared, chunk, size, 0, part, mean);
        } else {
            add(type, shared + rank * chunk, shared, chunk, size, part * rank / size, part * (rank + 1) / size, mean);
            if (hasten_meet(lines, rank, size, ++*step, spins, watching)) return 1;
            for (int peer = 0; peer < size; peer++) {
                const int64_t low = part * peer / size * bytes, high = part * (peer + 1) / size * bytes;
                memcpy(here + low, shared + peer * chunk + low, high - low);
            }
        }
        done += part;
    } while (done < count);
    return 0;
}
