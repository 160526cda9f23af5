// Max pooling by windows of 2x2 numbers that do not overlap, of pictures stored channels last.
//
// Each output takes the largest of its four numbers, the first of equal ones, and a NaN where there is one, as
// torch.max_pool2d does. Where it came from is kept in one byte, 0 to 3: torch keeps eight bytes, fills the
// whole gradient with zeros first, and then adds to it number by number.

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

constexpr std::int64_t kWorthThreads = 1 << 15;  // numbers

inline float widened(float number) { return number; }

inline float widened(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float number;
  std::memcpy(&number, &wide, sizeof number);
  return number;
}

inline void narrow(float number, float &to) { to = number; }

inline void narrow(float number, std::uint16_t &to) {
  std::uint32_t wide;
  std::memcpy(&wide, &number, sizeof wide);
  to = static_cast<std::uint16_t>(wide >> 16);
}

inline bool beats(float one, float best) { return one > best || one != one; }

// The largest of four numbers in each of some channels, and which it was. Their count is known when this is
// compiled, so that they fill vector registers of their own width: a network may have as few as 16.
template <int kChannels, typename Number>
inline void pool(const Number *first, const Number *second, const Number *third, const Number *fourth,
                 Number *pooled, std::uint8_t *places) {
#pragma omp simd
  for (int channel = 0; channel < kChannels; ++channel) {
    float best = widened(first[channel]), other = widened(second[channel]);
    std::int32_t which = 0;
    bool wins = beats(other, best);
    best = wins ? other : best;
    which = wins ? 1 : which;
    other = widened(third[channel]);
    wins = beats(other, best);
    best = wins ? other : best;
    which = wins ? 2 : which;
    other = widened(fourth[channel]);
    wins = beats(other, best);
    best = wins ? other : best;
    which = wins ? 3 : which;
    narrow(best, pooled[channel]);
    places[channel] = static_cast<std::uint8_t>(which);
  }
}

// Numbers are only moved, so they are bits of their width here.
template <int kChannels, typename Bits>
inline void unpool(const Bits *gradient, const std::uint8_t *places, Bits mine, Bits *cell) {
#pragma omp simd
  for (int channel = 0; channel < kChannels; ++channel) {
    const Bits place = places[channel], given = gradient[channel];
    cell[channel] = place == mine ? given : Bits{0};
  }
}

// Calls what(count, from) for all channels: in blocks of 16, then of 8, then one by one.
template <typename What>
inline void in_blocks(std::int64_t channels, What what) {
  std::int64_t from = 0;
  for (; from + 16 <= channels; from += 16) what(std::integral_constant<int, 16>{}, from);
  for (; from + 8 <= channels; from += 8) what(std::integral_constant<int, 8>{}, from);
  for (; from < channels; ++from) what(std::integral_constant<int, 1>{}, from);
}

template <typename Number>
void forward(const Number *pictures, Number *pooled, std::uint8_t *places, std::int64_t count,
             std::int64_t channels, std::int64_t height, std::int64_t width) {
  const std::int64_t rows = height / 2, columns = width / 2;
#pragma omp parallel for if (count * rows * columns * channels > kWorthThreads)
  for (std::int64_t row = 0; row < count * rows; ++row) {
    const Number *above = pictures + ((row / rows) * height + (row % rows) * 2) * width * channels;
    for (std::int64_t column = 0; column < columns; ++column) {
      const Number *first = above + 2 * column * channels, *second = first + channels;
      const Number *third = first + width * channels, *fourth = third + channels;
      const std::int64_t at = (row * columns + column) * channels;
      in_blocks(channels, [&](auto block, std::int64_t from) {
        pool<block()>(first + from, second + from, third + from, fourth + from, pooled + at + from,
                      places + at + from);
      });
    }
  }
}

template <typename Bits>
void backward(const Bits *gradient, const std::uint8_t *places, Bits *whole, std::int64_t count,
              std::int64_t channels, std::int64_t height, std::int64_t width) {
  const std::int64_t rows = height / 2, columns = width / 2;
#pragma omp parallel for if (count * height * width * channels > kWorthThreads)
  for (std::int64_t line = 0; line < count * height; ++line) {
    const std::int64_t row = (line % height) / 2, half = (line % height) % 2;
    Bits *to = whole + line * width * channels;
    if (row >= rows) {  // the last one of an odd number is in no window
      std::memset(to, 0, width * channels * sizeof(Bits));
      continue;
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t at = (((line / height) * rows + row) * columns + column) * channels;
      for (std::int64_t side = 0; side < 2; ++side) {
        const Bits mine = static_cast<Bits>(2 * half + side);
        Bits *cell = to + (2 * column + side) * channels;
        in_blocks(channels, [&](auto block, std::int64_t from) {
          unpool<block()>(gradient + at + from, places + at + from, mine, cell + from);
        });
      }
    }
    std::memset(to + 2 * columns * channels, 0, (width - 2 * columns) * channels * sizeof(Bits));
  }
}

}  // namespace

extern "C" {

void hasten_pool_float32(const float *pictures, float *pooled, std::uint8_t *places, std::int64_t count,
                         std::int64_t channels, std::int64_t height, std::int64_t width) {
  forward(pictures, pooled, places, count, channels, height, width);
}

void hasten_pool_bfloat16(const std::uint16_t *pictures, std::uint16_t *pooled, std::uint8_t *places,
                          std::int64_t count, std::int64_t channels, std::int64_t height,
                          std::int64_t width) {
  forward(pictures, pooled, places, count, channels, height, width);
}

void hasten_unpool_float32(const std::uint32_t *gradient, const std::uint8_t *places, std::uint32_t *whole,
                           std::int64_t count, std::int64_t channels, std::int64_t height,
                           std::int64_t width) {
  backward(gradient, places, whole, count, channels, height, width);
}

void hasten_unpool_bfloat16(const std::uint16_t *gradient, const std::uint8_t *places, std::uint16_t *whole,
                            std::int64_t count, std::int64_t channels, std::int64_t height,
                            std::int64_t width) {
  backward(gradient, places, whole, count, channels, height, width);
}
}
