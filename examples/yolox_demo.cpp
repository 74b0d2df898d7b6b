// SPDX-License-Identifier: Apache-2.0
// Detects objects in a photo with YOLOX and draws them: an engine (or an ONNX file) and a picture
// in, a PNG out. Uses the public API only. usage: yolox_demo ENGINE|MODEL.onnx PHOTO OUT.png
// `yolox_demo --input PHOTO OUT.npy` writes what the network would be given: data to calibrate
// with.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
// After the two above: it is plain functions.
#include <stb_easy_font.h>

#include "camshaft/builder.h"
#include "camshaft/context.h"

namespace {

constexpr std::array<const char*, 80> kClasses = {"person",        "bicycle",      "car",
                                                  "motorcycle",    "airplane",     "bus",
                                                  "train",         "truck",        "boat",
                                                  "traffic light", "fire hydrant", "stop sign",
                                                  "parking meter", "bench",        "bird",
                                                  "cat",           "dog",          "horse",
                                                  "sheep",         "cow",          "elephant",
                                                  "bear",          "zebra",        "giraffe",
                                                  "backpack",      "umbrella",     "handbag",
                                                  "tie",           "suitcase",     "frisbee",
                                                  "skis",          "snowboard",    "sports ball",
                                                  "kite",          "baseball bat", "baseball glove",
                                                  "skateboard",    "surfboard",    "tennis racket",
                                                  "bottle",        "wine glass",   "cup",
                                                  "fork",          "knife",        "spoon",
                                                  "bowl",          "banana",       "apple",
                                                  "sandwich",      "orange",       "broccoli",
                                                  "carrot",        "hot dog",      "pizza",
                                                  "donut",         "cake",         "chair",
                                                  "couch",         "potted plant", "bed",
                                                  "dining table",  "toilet",       "tv",
                                                  "laptop",        "mouse",        "remote",
                                                  "keyboard",      "cell phone",   "microwave",
                                                  "oven",          "toaster",      "sink",
                                                  "refrigerator",  "book",         "clock",
                                                  "vase",          "scissors",     "teddy bear",
                                                  "hair drier",    "toothbrush"};

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;

  uint8_t* pixel(int x, int y) { return rgb.data() + (static_cast<size_t>(y) * width + x) * 3; }
  const uint8_t* pixel(int x, int y) const {
    return rgb.data() + (static_cast<size_t>(y) * width + x) * 3;
  }
};

struct Detection {
  int class_id;
  float score;
  float left, top, right, bottom;  // in pixels of the photo
};

bool read_image(const char* file, Image& image) {
  int channels = 0;
  uint8_t* pixels = stbi_load(file, &image.width, &image.height, &channels, 3);
  if (pixels == nullptr) return false;
  image.rgb.assign(pixels, pixels + static_cast<size_t>(image.width) * image.height * 3);
  stbi_image_free(pixels);
  return true;
}

// Channel `c` of the photo at a real position, bilinear.
float sample(const Image& image, float x, float y, int c) {
  x = std::clamp(x, 0.0F, static_cast<float>(image.width - 1));
  y = std::clamp(y, 0.0F, static_cast<float>(image.height - 1));
  const int x0 = static_cast<int>(x);
  const int y0 = static_cast<int>(y);
  const int x1 = std::min(x0 + 1, image.width - 1);
  const int y1 = std::min(y0 + 1, image.height - 1);
  const float fx = x - static_cast<float>(x0);
  const float fy = y - static_cast<float>(y0);
  const float upper = image.pixel(x0, y0)[c] * (1 - fx) + image.pixel(x1, y0)[c] * fx;
  const float lower = image.pixel(x0, y1)[c] * (1 - fx) + image.pixel(x1, y1)[c] * fx;
  return upper * (1 - fy) + lower * fy;
}

// The photo scaled into the top left corner of a grey square, as planes of blue, green and red from
// 0 to 255.
std::vector<float> letterbox(const Image& image, int size, float& scale) {
  scale = std::min(static_cast<float>(size) / image.width, static_cast<float>(size) / image.height);
  const int width = static_cast<int>(image.width * scale);
  const int height = static_cast<int>(image.height * scale);
  const size_t plane = static_cast<size_t>(size) * size;
  std::vector<float> planes(plane * 3, 114.0F);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float source_x = (static_cast<float>(x) + 0.5F) / scale - 0.5F;
      const float source_y = (static_cast<float>(y) + 0.5F) / scale - 0.5F;
      for (int c = 0; c < 3; ++c) {
        planes[(2 - c) * plane + static_cast<size_t>(y) * size + x] =
            sample(image, source_x, source_y, c);
      }
    }
  }
  return planes;
}

// Every cell of the three grids predicts one box: centre and log size in units of the grid's
// stride, objectness, class scores.
std::vector<Detection> decode(std::span<const float> output, int size, float scale,
                              float threshold) {
  constexpr int kRow = 85;
  std::vector<Detection> detections;
  const float* row = output.data();
  for (const int stride : {8, 16, 32}) {
    for (int gy = 0; gy < size / stride; ++gy) {
      for (int gx = 0; gx < size / stride; ++gx, row += kRow) {
        const float* best = std::max_element(row + 5, row + kRow);
        const float score = row[4] * *best;
        if (score < threshold) continue;
        const float x = (row[0] + gx) * stride / scale;
        const float y = (row[1] + gy) * stride / scale;
        const float half_width = std::exp(row[2]) * stride / scale / 2;
        const float half_height = std::exp(row[3]) * stride / scale / 2;
        detections.push_back({static_cast<int>(best - row - 5), score, x - half_width,
                              y - half_height, x + half_width, y + half_height});
      }
    }
  }
  return detections;
}

float overlap(const Detection& a, const Detection& b) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const float area_a = (a.right - a.left) * (a.bottom - a.top);
  const float area_b = (b.right - b.left) * (b.bottom - b.top);
  return width * height / (area_a + area_b - width * height);
}

// Non-maximum suppression over all classes: the best box wins over those that overlap it by more
// than `limit`.
std::vector<Detection> suppress(std::vector<Detection> detections, float limit) {
  std::stable_sort(detections.begin(), detections.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::vector<Detection> kept;
  for (const Detection& candidate : detections) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Detection& other) {
      return overlap(candidate, other) > limit;
    });
    if (!covered) kept.push_back(candidate);
  }
  return kept;
}

using Colour = std::array<uint8_t, 3>;

void fill(Image& image, int left, int top, int right, int bottom, Colour colour) {
  for (int y = std::max(top, 0); y < std::min(bottom, image.height); ++y) {
    for (int x = std::max(left, 0); x < std::min(right, image.width); ++x)
      std::copy(colour.begin(), colour.end(), image.pixel(x, y));
  }
}

// stb_easy_font gives a text as small axis-aligned rectangles.
void draw_text(Image& image, int left, int top, std::string text, Colour colour) {
  std::vector<char> buffer(text.size() * 300 + 16);
  const int quads = stb_easy_font_print(0, 0, text.data(), nullptr, buffer.data(),
                                        static_cast<int>(buffer.size()));
  for (int k = 0; k < quads; ++k) {
    float corners[4][4];  // x, y, z, colour of each
    std::memcpy(corners, buffer.data() + static_cast<size_t>(k) * sizeof corners, sizeof corners);
    fill(image, left + static_cast<int>(corners[0][0]), top + static_cast<int>(corners[0][1]),
         left + static_cast<int>(corners[2][0]), top + static_cast<int>(corners[2][1]), colour);
  }
}

void draw(Image& image, const Detection& detection) {
  constexpr int kLine = 2;
  constexpr Colour kText = {255, 255, 255};
  static constexpr Colour kPalette[] = {{220, 50, 47}, {38, 139, 210},  {133, 153, 0},
                                        {181, 137, 0}, {108, 113, 196}, {42, 161, 152}};
  const Colour colour = kPalette[detection.class_id % 6];
  const int left = static_cast<int>(std::max(detection.left, 0.0F));
  const int top = static_cast<int>(std::max(detection.top, 0.0F));
  const int right = std::min(static_cast<int>(detection.right), image.width);
  const int bottom = std::min(static_cast<int>(detection.bottom), image.height);
  fill(image, left, top, right, top + kLine, colour);
  fill(image, left, bottom - kLine, right, bottom, colour);
  fill(image, left, top, left + kLine, bottom, colour);
  fill(image, right - kLine, top, right, bottom, colour);
  char label[64];
  std::snprintf(label, sizeof label, "%s %.0f%%", kClasses[static_cast<size_t>(detection.class_id)],
                detection.score * 100);
  const int width = stb_easy_font_width(label);
  const int label_top = std::max(top - 11, 0);
  fill(image, left, label_top, left + width + 5, label_top + 11, colour);
  draw_text(image, left + 3, label_top + 2, label, kText);
}

camshaft::Result<camshaft::Engine> open(const std::string& file) {
  if (!file.ends_with(".onnx")) return camshaft::Engine::load(file);
  auto model = camshaft::Model::from_file(file);
  if (!model.ok()) return model.status();
  return camshaft::build(std::move(model).value());
}

camshaft::Status detect(const camshaft::Engine& engine, const Image& image,
                        std::vector<Detection>& detections) {
  using camshaft::ErrorCode;
  using camshaft::Status;
  const camshaft::TensorInfo& input = engine.inputs().at(0);
  const camshaft::TensorInfo& output = engine.outputs().at(0);
  if (input.dims.size() != 4 || input.dims[2] != input.dims[3] || output.dims.size() != 3 ||
      output.dims[2] != 85) {
    return Status(ErrorCode::kInvalidModel, "not a YOLOX network for the 80 classes of COCO");
  }
  const int size = static_cast<int>(input.dims[2]);
  float scale = 1;
  const std::vector<float> planes = letterbox(image, size, scale);
  auto context = camshaft::Context::create(engine);
  if (!context.ok()) return context.status();
  if (Status status = context->set_input(input.name, std::span<const float>(planes)); !status.ok())
    return status;
  if (Status status = context->run(); !status.ok()) return status;
  const auto start = std::chrono::steady_clock::now();
  if (Status status = context->run(); !status.ok()) return status;
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf("one run: %.2f ms with %d thread%s\n", ms, context->threads(),
              context->threads() == 1 ? "" : "s");
  const auto view = context->output(output.name);
  if (!view.ok()) return view.status();
  detections = suppress(decode(view.value().as<float>(), size, scale, 0.3F), 0.45F);
  return {};
}

// The network's input for the photo, 1x3x416x416 floats, as NumPy stores them.
bool write_input(const Image& image, const char* file) {
  constexpr int kSize = 416;
  float scale = 1;
  const std::vector<float> planes = letterbox(image, kSize, scale);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 416, 416), }";
  header.resize(117, ' ');  // with magic, version, length and the line's end: 128
  header += '\n';
  std::FILE* out = std::fopen(file, "wb");
  if (out == nullptr) return false;
  const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
  std::fwrite(start, 1, sizeof start, out);
  std::fwrite(header.data(), 1, header.size(), out);
  const bool good = std::fwrite(planes.data(), 4, planes.size(), out) == planes.size();
  return std::fclose(out) == 0 && good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr,
                 "usage: %s ENGINE|MODEL.onnx PHOTO OUT.png\n       %s --input PHOTO OUT.npy\n",
                 argv[0], argv[0]);
    return 1;
  }
  Image image;
  if (!read_image(argv[2], image)) {
    std::fprintf(stderr, "error: %s: not a picture that can be read\n", argv[2]);
    return 1;
  }
  if (std::strcmp(argv[1], "--input") == 0) {
    if (write_input(image, argv[3])) return 0;
    std::fprintf(stderr, "error: %s: cannot be written\n", argv[3]);
    return 1;
  }
  auto engine = open(argv[1]);
  std::vector<Detection> detections;
  const camshaft::Status status =
      engine.ok() ? detect(*engine, image, detections) : engine.status();
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  std::printf("%zu object%s in %s\n", detections.size(), detections.size() == 1 ? "" : "s",
              argv[2]);
  for (const Detection& detection : detections) {
    std::printf("  %-14s %5.1f %%  left %4.0f  top %4.0f  right %4.0f  bottom %4.0f\n",
                kClasses[static_cast<size_t>(detection.class_id)], detection.score * 100,
                detection.left, detection.top, detection.right, detection.bottom);
  }
  // The best one is drawn last, on top.
  for (auto detection = detections.rbegin(); detection != detections.rend(); ++detection)
    draw(image, *detection);
  if (stbi_write_png(argv[3], image.width, image.height, 3, image.rgb.data(), image.width * 3) ==
      0) {
    std::fprintf(stderr, "error: %s: cannot be written\n", argv[3]);
    return 1;
  }
  std::printf("drawn into %s\n", argv[3]);
  return 0;
}
