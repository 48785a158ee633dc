#include "core/formats/llama2c.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/manifest.h"
#include "core/mapped_file.h"

namespace folio::core {
namespace {

constexpr uint32_t kLlama2cMagic = 0x616B3432;  // "ak42" as a little-endian integer
constexpr size_t kHeaderBytes = 256;            // size of the header in versions 1 and 2
constexpr float kTheta = 10000.0F;
constexpr float kEps = 1e-5F;

// The order of roles in files of version 0, and in those of versions 1 and 2. A role's tensors are contiguous, one per
// layer.
constexpr std::array kOrder0{Role::TokenEmbedding,
                             Role::AttentionNorm,
                             Role::Wq,
                             Role::Wk,
                             Role::Wv,
                             Role::Wo,
                             Role::FfnNorm,
                             Role::W1,
                             Role::W2,
                             Role::W3,
                             Role::OutputNorm};
constexpr std::array kOrder1{Role::AttentionNorm,
                             Role::FfnNorm,
                             Role::OutputNorm,
                             Role::TokenEmbedding,
                             Role::Wq,
                             Role::Wk,
                             Role::Wv,
                             Role::Wo,
                             Role::W1,
                             Role::W2,
                             Role::W3,
                             Role::Output};

struct Header {
  int version = 0;
  ModelConfig config;
  int32_t group_size = 0;
  size_t bytes = 0;
};

// Calls visit(i) with the manifest index of each tensor in file order: by role, then by layer. In version 0, calls
// visit_tables() at the RoPE tables, which are before a separate output matrix.
template <typename Visit, typename VisitTables>
void in_file_order(const Header& header, const std::vector<TensorSpec>& manifest, Visit&& visit,
                   VisitTables&& visit_tables) {
  for (const Role role : header.version > 0 ? std::span<const Role>(kOrder1) : std::span<const Role>(kOrder0)) {
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest[i].role == role) visit(i);
    }
  }
  if (header.version > 0) return;
  visit_tables();
  if (!header.config.tie_embeddings) visit(manifest.size() - 1);
}

bool is_quantized(const Header& header, const TensorSpec& spec) { return header.version == 2 && spec.shape.size() > 1; }

uint64_t stored_bytes(const Header& header, const TensorSpec& spec) {
  const auto elements = static_cast<uint64_t>(spec.elements());
  if (!is_quantized(header, spec)) return elements * sizeof(float);
  return elements + elements / static_cast<uint64_t>(header.group_size) * sizeof(float);
}

uint64_t rope_table_bytes(const ModelConfig& c) {  // cosines and sines, each (context_length, head_dim / 2)
  return static_cast<uint64_t>(c.context_length * c.head_dim) * sizeof(float);
}

// Returns the length in bytes that a file with this header must have.
uint64_t file_bytes(const Header& header) {
  uint64_t bytes = header.bytes + (header.version == 0 ? rope_table_bytes(header.config) : 0);
  for (const TensorSpec& spec : tensor_manifest(header.config)) bytes += stored_bytes(header, spec);
  return bytes;
}

template <typename T>
T number_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Header read_header(const MappedFile& file) {
  const auto bytes = file.bytes();
  const std::string where = file.path().string();
  constexpr size_t kNumbers = 7;
  require(bytes.size() >= kNumbers * sizeof(int32_t), "{}: the file has {} bytes, too few for a model", where,
          bytes.size());
  Header header;
  const bool magic = number_at<uint32_t>(bytes, 0) == kLlama2cMagic;
  if (magic) {
    require(bytes.size() >= kHeaderBytes, "{}: the header is truncated; download the file again", where);
    header.version = number_at<int32_t>(bytes, 4);
    require(header.version == 1 || header.version == 2,
            "{}: llama2.c version {} is not supported (supported: 0, 1 and 2)", where, header.version);
    header.bytes = kHeaderBytes;
  } else {
    header.bytes = kNumbers * sizeof(int32_t);
  }
  std::array<int32_t, kNumbers> n{};
  std::memcpy(n.data(), bytes.data() + (magic ? 8 : 0), sizeof n);
  ModelConfig& c = header.config;
  c.dim = n[0];
  c.hidden_dim = n[1];
  c.n_layers = n[2];
  c.n_heads = n[3];
  c.n_kv_heads = n[4];
  c.head_dim = c.n_heads > 0 ? c.dim / c.n_heads : 0;
  c.vocab_size = std::abs(static_cast<int64_t>(n[5]));
  c.context_length = n[6];
  c.rope_theta = kTheta;
  c.norm_eps = kEps;
  c.tie_embeddings = n[5] > 0;  // in version 0, a negative vocabulary size means a separate output matrix
  if (magic) {
    const auto shared = number_at<uint8_t>(bytes, 36);
    require(n[5] > 0 && shared <= 1,
            "{}: the header has a vocabulary size of {} and a shared-output flag of {}; the file is damaged", where,
            n[5], shared);
    c.tie_embeddings = shared == 1;
  }
  const std::string what = where + (magic ? "" : ": neither a GGUF nor a llama2.c file");
  validate(c, what);
  c.head_dim = even_head_dim(c.dim, c.n_heads, what);
  if (header.version == 2) {
    header.group_size = number_at<int32_t>(bytes, 37);
    const int32_t g = header.group_size;
    require(g > 0 && c.dim % g == 0, "{}: group size {} does not divide dim {}", where, g, c.dim);
  }
  return header;
}

std::vector<float> multiplied_out(std::span<const std::byte> stored, int64_t elements, int32_t group_size) {
  std::vector<float> values(static_cast<size_t>(elements));
  const auto* quants = reinterpret_cast<const int8_t*>(stored.data());
  const std::byte* scales = stored.data() + elements;
  for (int64_t i = 0; i < elements; ++i) {
    float scale;
    std::memcpy(&scale, scales + i / group_size * static_cast<int64_t>(sizeof scale), sizeof scale);
    values[static_cast<size_t>(i)] = static_cast<float>(quants[i]) * scale;
  }
  return values;
}

// Returns the quants, and each group's scale, of values quantized like export.py: scales the largest magnitude to 127,
// computes with floats and rounds ties to even.
std::pair<std::vector<int8_t>, std::vector<float>> quantize(const std::string& name, std::span<const float> values,
                                                            int32_t group_size) {
  for (const float v : values) {
    require(std::isfinite(v), "tensor {} contains {}, which llama2.c version 2 cannot store; use version 0 or 1", name,
            v);
  }
  std::vector<int8_t> quants;
  std::vector<float> scales;
  const auto group = static_cast<size_t>(group_size);
  for (size_t begin = 0; begin < values.size(); begin += group) {
    float largest = 0.0F;
    for (const float v : values.subspan(begin, group)) largest = std::max(largest, std::abs(v));
    const float scale = largest / 127.0F;
    scales.push_back(scale);
    for (const float v : values.subspan(begin, group)) {
      // A subnormal scale has so few bits that a quotient may exceed 127.
      const float quant = scale == 0.0F ? 0.0F : std::clamp(std::nearbyint(v / scale), -127.0F, 127.0F);
      quants.push_back(static_cast<int8_t>(quant));
    }
  }
  return {std::move(quants), std::move(scales)};
}

// Returns cosines, then sines, of position * theta^(-2i / head_dim), each of shape (context_length, head_dim / 2).
std::vector<float> rope_tables(const ModelConfig& c) {
  std::vector<float> cosines;
  std::vector<float> sines;
  for (int64_t position = 0; position < c.context_length; ++position) {
    for (int64_t i = 0; i < c.head_dim; i += 2) {
      const float frequency = 1.0F / std::pow(kTheta, static_cast<float>(i) / static_cast<float>(c.head_dim));
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  cosines.insert(cosines.end(), sines.begin(), sines.end());
  return cosines;
}

void write_header(OutputFile& out, const Header& header) {
  const ModelConfig& c = header.config;
  if (header.version > 0) {
    out.put(kLlama2cMagic);
    out.put<int32_t>(header.version);
  }
  for (const int64_t n : {c.dim, c.hidden_dim, c.n_layers, c.n_heads, c.n_kv_heads}) {
    out.put(static_cast<int32_t>(n));
  }
  const auto vocab_size = static_cast<int32_t>(c.vocab_size);
  out.put(header.version == 0 && !c.tie_embeddings ? -vocab_size : vocab_size);
  out.put(static_cast<int32_t>(c.context_length));
  if (header.version > 0) out.put<uint8_t>(c.tie_embeddings ? 1 : 0);
  if (header.version == 2) out.put(header.group_size);
  out.pad_to(header.bytes);
}

}  // namespace

int32_t llama2c_group_size(const ModelConfig& config) {
  return static_cast<int32_t>(std::gcd(std::gcd(config.dim, config.hidden_dim), int64_t{64}));
}

StoredModel read_llama2c(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const Header header = read_header(*file);
  const uint64_t expected = file_bytes(header);
  require(file->bytes().size() == expected,
          "{}: the file has {} bytes, but its llama2.c version {} header requires {}{}", path.string(),
          file->bytes().size(), header.version, expected,
          header.version == 0 ? "; it is damaged or not a model file" : "; it is damaged, download it again");
  constexpr std::array kFormats = {ModelFormat::Llama2cV0, ModelFormat::Llama2cV1, ModelFormat::Llama2cV2};
  StoredModel model{.path = path.string(),
                    .format = kFormats[static_cast<size_t>(header.version)],
                    .config = header.config,
                    .files = {file}};
  const auto manifest = tensor_manifest(header.config);
  model.tensors.resize(manifest.size());
  size_t offset = header.bytes;
  const auto take = [&](size_t i) {
    const TensorSpec& spec = manifest[i];
    const auto stored = file->bytes().subspan(offset, stored_bytes(header, spec));
    offset += stored.size();
    TensorView& view = model.tensors[i];
    view = {.name = spec.gguf_name, .type = DType::F32, .shape = spec.shape, .bytes = stored};
    if (is_quantized(header, spec)) {
      store(multiplied_out(stored, spec.elements(), header.group_size), view, model.storage);
    }
  };
  const auto skip_tables = [&] { offset += rope_table_bytes(header.config); };  // they are computed instead
  in_file_order(header, manifest, take, skip_tables);
  return model;
}

void write_llama2c(const std::filesystem::path& path, const ModelConfig& config, const TensorStream& stream,
                   int version) {
  const bool llama = config.family == Family::Llama || config.family == Family::Mistral;
  require(llama && config.query_dim() == config.dim && config.sliding_window == 0 && config.n_tokens_ahead == 0,
          "llama2.c cannot store {}; use --format gguf",
          !llama                       ? fmt::format("the family {}", config.family)
          : config.sliding_window != 0 ? std::string("a sliding window")
          : config.n_tokens_ahead != 0 ? std::string("a module that predicts later tokens")
                                       : std::string("a head_dim other than dim / n_heads"));
  require(config.rope_theta == kTheta, "llama2.c fixes rope_theta at 10000, but this model's is {}; use --format gguf",
          config.rope_theta);
  require(!config.rope_scaling.active(),
          "llama2.c has no RoPE scaling, but this model's factor is {}; use --format gguf", config.rope_scaling.factor);
  require(config.norm_eps == kEps, "llama2.c fixes norm_eps at 1e-5, but this model's is {}; use --format gguf",
          config.norm_eps);
  require(version >= 0 && version <= 2, "llama2.c version {} is not supported (supported: 0, 1 and 2)", version);
  Header header{.version = version, .config = config, .bytes = version == 0 ? 7 * sizeof(int32_t) : kHeaderBytes};
  if (version == 2) header.group_size = llama2c_group_size(config);
  const auto manifest = tensor_manifest(config);
  write_file_atomically(path, [&](OutputFile& out) {
    write_header(out, header);
    const auto write = [&](size_t i) {
      require(stream.tensors.at(i).type == DType::F32, "tensor {} has type {}, but llama2.c requires F32",
              printable(stream.tensors[i].name), info(stream.tensors[i].type).name);
      const auto bytes = checked_bytes(stream, i);
      if (!is_quantized(header, manifest[i])) {
        out.write(bytes);
        return;
      }
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      const auto [quants, scales] = quantize(printable(stream.tensors[i].name), values, header.group_size);
      out.write(std::as_bytes(std::span(quants)));
      out.write(std::as_bytes(std::span(scales)));
    };
    in_file_order(header, manifest, write, [&] {
      const std::vector<float> tables = rope_tables(config);
      out.write(std::as_bytes(std::span(tables)));
    });
  });
}

}  // namespace folio::core
