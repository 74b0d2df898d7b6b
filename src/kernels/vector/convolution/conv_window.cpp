// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/conv_window.h"

#include <cstring>

#include "kernels/simd/words.h"
#include "kernels/vector/gemm/gemm_bf16.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

CAMSHAFT_INLINE void fill(std::byte* to, uint8_t value, int64_t bytes) {
  if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
}

// Pixels of padding.
void fill_pixels(const ConvRun& run, std::byte* to, int64_t bytes) {
  if (run.tile.numeric != Numeric::kWord) return fill(to, run.x.padding, bytes);
  const uint16_t word = run.x.padding;
  for (int64_t k = 0; k < bytes; k += 2) std::memcpy(to + k, &word, sizeof word);
}

// memcpy is a call with branches on the size: pixels of few channels are not worth it.
CAMSHAFT_INLINE void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kVector = kLanes * kLaneBytes;
  int64_t k = 0;
  for (; k + kVector <= bytes; k += kVector)
    store(reinterpret_cast<float*>(to + k), load(reinterpret_cast<const float*>(from + k)));
  for (; k + kLaneBytes <= bytes; k += kLaneBytes) __builtin_memcpy(to + k, from + k, 4);
  for (; k < bytes; ++k) to[k] = from[k];
}

// Floats of planes become bfloat16s of pixels.
void interleave_as_bf16(const ConvRun& run, const std::byte* from, int64_t pixels, std::byte* to) {
  constexpr int64_t kChunk = 256;
  uint16_t bits[kChunk];
  float gathered[kChunk];
  for (int64_t c = 0; c < run.shape.ic; ++c)
    for (int64_t first = 0; first < pixels; first += kChunk) {
      const int64_t count = pixels - first < kChunk ? pixels - first : kChunk;
      const std::byte* plane = from + c * run.x.channel + first * run.x.pixel;
      const float* floats = reinterpret_cast<const float*>(plane);
      if (run.x.pixel != kLaneBytes) {
        for (int64_t p = 0; p < count; ++p)
          gathered[p] = *reinterpret_cast<const float*>(plane + p * run.x.pixel);
        floats = gathered;
      }
      to_bf16(floats, count, bits);
      std::byte* pixel = to + first * run.plan.a.pixel + c * 2;
      for (int64_t p = 0; p < count; ++p)
        *reinterpret_cast<uint16_t*>(pixel + p * run.plan.a.pixel) = bits[p];
    }
}

void narrow_pixels(const ConvRun& run, const std::byte* from, int64_t pixels, std::byte* to) {
  const int64_t ic = run.shape.ic;
  if (run.x.channel != kLaneBytes) return interleave_as_bf16(run, from, pixels, to);
  const auto narrow = [](const std::byte* floats, int64_t count, std::byte* bits) {
    to_bf16(reinterpret_cast<const float*>(floats), count, reinterpret_cast<uint16_t*>(bits));
  };
  if (run.x.pixel == ic * kLaneBytes && run.plan.a.pixel == ic * 2)
    return narrow(from, pixels * ic, to);
  for (int64_t p = 0; p < pixels; ++p)
    narrow(from + p * run.x.pixel, ic, to + p * run.plan.a.pixel);
}

// Bytes of pixels, or of planes, become words of pixels.
void widen_pixels(const ConvRun& run, const std::byte* from, int64_t pixels, std::byte* to) {
  const int64_t ic = run.shape.ic;
  if (run.x.channel == 1 && run.x.pixel == ic && run.plan.a.pixel == 2 * ic)
    return widen_bytes(from, pixels * ic, to);
  if (run.x.channel == 1) {
    for (int64_t p = 0; p < pixels; ++p)
      widen_bytes(from + p * run.x.pixel, ic, to + p * run.plan.a.pixel);
    return;
  }
  for (int64_t c = 0; c < ic; ++c)
    for (int64_t p = 0; p < pixels; ++p) {
      const uint16_t word = std::to_integer<uint16_t>(from[c * run.x.channel + p * run.x.pixel]);
      __builtin_memcpy(to + p * run.plan.a.pixel + 2 * c, &word, sizeof word);
    }
}

template <class T>
void interleave(const ConvRun& run, const std::byte* from, int64_t pixels, std::byte* to) {
  for (int64_t c = 0; c < run.shape.ic; ++c) {
    const std::byte* plane = from + c * run.x.channel;
    std::byte* first = to + c * static_cast<int64_t>(sizeof(T));
    for (int64_t p = 0; p < pixels; ++p)
      *reinterpret_cast<T*>(first + p * run.plan.a.pixel) =
          *reinterpret_cast<const T*>(plane + p * run.x.pixel);
  }
}

// `pixels` pixels of one input row into pixels `run.pixel` apart.
void copy_pixels(const ConvRun& run, const std::byte* from, int64_t pixels, std::byte* to) {
  const int64_t bytes = run.shape.ic * run.tile.element();
  if (run.tile.numeric == Numeric::kWord) {
    widen_pixels(run, from, pixels, to);
  } else if (run.x_element() != run.tile.element()) {
    narrow_pixels(run, from, pixels, to);
  } else if (run.x.channel != run.tile.element()) {
    run.tile.numeric == Numeric::kFloat  ? interleave<float>(run, from, pixels, to)
    : run.tile.numeric == Numeric::kByte ? interleave<uint8_t>(run, from, pixels, to)
                                         : interleave<uint16_t>(run, from, pixels, to);
  } else if (run.x.pixel == bytes && run.plan.a.pixel == bytes) {
    std::memcpy(to, from, static_cast<size_t>(pixels * bytes));
  } else {
    for (int64_t p = 0; p < pixels; ++p)
      copy_bytes(to + p * run.plan.a.pixel, from + p * run.x.pixel, bytes);
  }
}

}  // namespace

void copy_window(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                 int64_t cols, std::byte* scratch) {
  const ConvShape& s = run.shape;
  const int64_t ih0 = row * s.sh - s.pad_top, iw0 = col * s.sw - s.pad_left;
  const int64_t high = (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1;
  const int64_t wide = (cols - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  // Columns [left, right) of the window lie inside the image.
  const int64_t left = iw0 >= 0 ? 0 : (-iw0 < wide ? -iw0 : wide);
  const int64_t inside = s.iw - iw0;
  const int64_t right = inside > wide ? wide : (inside < left ? left : inside);
  for (int64_t h = 0; h < high; ++h, scratch += run.plan.a.row) {
    const int64_t ih = ih0 + h;
    if (ih < 0 || ih >= s.ih) {
      if (run.x.padding != 0) fill_pixels(run, scratch, wide * run.plan.a.pixel);
      continue;  // else no tile reads it
    }
    const std::byte* from =
        run.x.data + image * run.x.image + ih * run.x.row + (iw0 + left) * run.x.pixel;
    fill_pixels(run, scratch, left * run.plan.a.pixel);
    copy_pixels(run, from, right - left, scratch + left * run.plan.a.pixel);
    fill_pixels(run, scratch + right * run.plan.a.pixel, (wide - right) * run.plan.a.pixel);
    // The last pair of an odd run: no weight makes a NaN vanish.
    if (run.tile.numeric == Numeric::kBf16) fill(scratch + wide * run.plan.a.pixel, 0, kLaneBytes);
  }
}

namespace {

void copy_elements(const ConvRun& run, const std::byte* from, int64_t count, std::byte* to) {
  if (run.tile.numeric == Numeric::kWord)
    widen_bytes(from, count, to);
  else
    copy_bytes(to, from, count * run.tile.element());
}

// Taps [first, end) of a line of a window are inside the image.
void copy_line(const ConvRun& run, const std::byte* from, int64_t first, int64_t end,
               std::byte* to) {
  const ConvShape& s = run.windows.shape;
  const int64_t tap = s.ic * run.tile.element(), step = s.dw * run.windows.x.pixel;
  const bool joins = step == s.ic * run.x_element();
  fill_pixels(run, to, first * tap);
  if (joins)
    copy_elements(run, from + first * step, (end - first) * s.ic, to + first * tap);
  else
    for (int64_t kw = first; kw < end; ++kw)
      copy_elements(run, from + kw * step, s.ic, to + kw * tap);
  fill_pixels(run, to + end * tap, (s.kw - end) * tap);
}

void copy_one_window(const ConvRun& run, int64_t image, int64_t row, int64_t col, std::byte* to) {
  const ConvWindows& windows = run.windows;
  const ConvShape& s = windows.shape;
  const int64_t line = s.kw * s.ic * run.tile.element();
  const int64_t ih = row * s.sh - s.pad_top, iw = col * s.sw - s.pad_left;
  const TapsInside taps(iw, s.dw, s.kw, s.iw);
  const std::byte* from = run.x.data + image * windows.x.image + iw * windows.x.pixel;
  for (int64_t kh = 0; kh < s.kh; ++kh, to += line) {
    const int64_t h = ih + kh * s.dh;
    if (h < 0 || h >= s.ih)
      fill_pixels(run, to, line);
    else
      copy_line(run, from + h * windows.x.row, taps.first, taps.end, to);
  }
}

}  // namespace

void copy_windows(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                  int64_t cols, std::byte* scratch) {
  const ConvShape &s = run.shape, &all = run.windows.shape;
  for (int64_t r = 0; r < rows; ++r, scratch += run.plan.a.row) {
    int64_t pixel = (image * s.oh + row + r) * s.ow + col;  // of all images
    for (int64_t c = 0; c < cols; ++c, ++pixel)
      copy_one_window(run, pixel / (all.oh * all.ow), pixel / all.ow % all.oh, pixel % all.ow,
                      scratch + c * run.plan.a.pixel);
  }
}

void copy_parts(const ConvRun& run, int64_t image, int64_t row, int64_t rows, int64_t col,
                int64_t cols, std::byte* scratch) {
  const ConvShape& s = run.shape;
  const std::byte* first =
      run.x.data + image * run.x.image + row * s.sh * run.x.row + col * s.sw * run.x.pixel;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const std::byte* from = first + r * s.sh * run.x.row + c * s.sw * run.x.pixel;
      for (int64_t index = 0; index < run.plan.parts.count(); ++index) {
        const ConvPart part = run.plan.parts.part(index);
        copy_bytes(scratch + (part.step * rows * cols + (r * cols + c) * part.steps) * kLaneBytes,
                   from + part.step * kLaneBytes, part.steps * kLaneBytes);
      }
    }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
