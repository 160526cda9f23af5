// Max pooling by windows of 2x2 numbers that do not overlap, of pictures stored channels last.
//
// Each output takes the largest of its four numbers, the first of equal ones, and a NaN where there is one, as
// torch.max_pool2d does. Where it came from is kept in one byte, 0 to 3: torch keeps eight bytes, fills the
// whole gradient with zeros first, and then adds to it number by number.

#include <cstdint>
#include <cstring>

namespace {

constexpr std::int64_t kWorthThreads = 1 << 15;  // numbers

inline bool is_nan(float number) { return number != number; }
inline bool is_nan(std::uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }

// What is compared: a float by itself, a bfloat16 by its bits, as whole numbers in the same order; -0 is equal
// to 0, and nothing is above a NaN, whatever its sign.
inline float order(float number) { return number; }

inline std::int16_t order(std::uint16_t bits) {
  const auto whole = static_cast<std::int16_t>(bits);
  const auto ordered = static_cast<std::int16_t>(whole ^ ((whole >> 15) & 0x7fff));
  const auto number = bits == 0x8000 ? std::int16_t{0} : ordered;
  return is_nan(bits) ? std::int16_t{0x7fff} : number;
}

template <typename Number>
inline bool beats(Number one, Number best) {
  return order(one) > order(best) || is_nan(one);
}

template <typename Number>
struct Place;  // as wide as the number, so that both fill a vector register alike
template <>
struct Place<float> {
  using Whole = std::int32_t;
};
template <>
struct Place<std::uint16_t> {
  using Whole = std::int16_t;
};

template <typename Number>
void forward(const Number *pictures, Number *pooled, std::uint8_t *places, std::int64_t count,
             std::int64_t channels, std::int64_t height, std::int64_t width) {
  using Whole = typename Place<Number>::Whole;
  const std::int64_t rows = height / 2, columns = width / 2;
#pragma omp parallel for if (count * rows * columns * channels > kWorthThreads)
  for (std::int64_t row = 0; row < count * rows; ++row) {
    const Number *above = pictures + ((row / rows) * height + (row % rows) * 2) * width * channels;
    for (std::int64_t column = 0; column < columns; ++column) {
      const Number *first = above + 2 * column * channels, *second = first + channels;
      const Number *third = first + width * channels, *fourth = third + channels;
      Number *to = pooled + (row * columns + column) * channels;
      std::uint8_t *place = places + (row * columns + column) * channels;
#pragma omp simd
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        Number best = first[channel], other = second[channel];
        Whole which = 0;
        bool wins = beats(other, best);
        best = wins ? other : best;
        which = wins ? Whole{1} : which;
        other = third[channel];
        wins = beats(other, best);
        best = wins ? other : best;
        which = wins ? Whole{2} : which;
        other = fourth[channel];
        wins = beats(other, best);
        best = wins ? other : best;
        which = wins ? Whole{3} : which;
        to[channel] = best;
        place[channel] = static_cast<std::uint8_t>(which);
      }
    }
  }
}

// Numbers are only moved, so they are bits of their width here.
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
#pragma omp simd
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          const Bits place = places[at + channel], given = gradient[at + channel];
          cell[channel] = place == mine ? given : Bits{0};
        }
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
