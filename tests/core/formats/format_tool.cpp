// Test tool: prints a GGUF or safetensors file as JSON, rewrites it, and converts floats to quantized blocks and back.
//   format_tool dump FILE | rewrite IN OUT | quantize GGML_TYPE FLOATS BLOCKS | dequantize GGML_TYPE BLOCKS FLOATS
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/gguf.h"
#include "core/formats/safetensors.h"
#include "core/quantize.h"
#include "core/quants.h"

namespace folio::core {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const GgufArray& array) {
  Json items = Json::array();
  std::visit(
      [&](const auto& values) {
        for (const auto& value : values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, GgufArray>) {
            items.push_back(to_json(value));
          } else {
            items.push_back(static_cast<std::decay_t<decltype(values[0])>>(value));
          }
        }
      },
      array.items);
  return {{"of", array.items.index()}, {"items", items}};
}

Json to_json(const GgufValue& value) {
  Json json = {{"type", value.index()}};
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, GgufArray>) {
          json.update(to_json(v));
        } else {
          json["value"] = v;
        }
      },
      value);
  return json;
}

Json to_json(const TensorView& tensor) {
  std::string hex;
  for (const std::byte b : tensor.bytes) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
  return {{"name", tensor.name}, {"type", info(tensor.type).name}, {"shape", tensor.shape}, {"hex", hex}};
}

Json dump(const std::string& path) {
  Json json = {{"metadata", Json::object()}, {"tensors", Json::array()}};
  const auto add = [&](const auto& file) {
    for (const TensorView& tensor : file.tensors()) json["tensors"].push_back(to_json(tensor));
  };
  if (is_gguf(path)) {
    const GgufFile file(path);
    for (const auto& [key, value] : file.metadata()) json["metadata"][key] = to_json(value);
    add(file);
  } else {
    const SafetensorsFile file(path);
    json["metadata"] = file.metadata();
    add(file);
  }
  return json;
}

void rewrite(const std::string& in, const std::string& out) {
  if (is_gguf(in)) {
    const GgufFile file(in);
    write_file_atomically(out, [&](OutputFile& stream) { write_gguf(stream, file.metadata(), file.tensors()); });
  } else {
    const SafetensorsFile file(in);
    std::vector<TensorView> tensors = file.tensors();
    std::erase_if(tensors, [](const TensorView& t) { return t.name.starts_with("__pad__."); });
    write_safetensors(out, tensors, file.metadata());
  }
}

DType type_named(const std::string& name) {
  const auto type = dtype_from_ggml(static_cast<uint32_t>(std::stoul(name)));
  require(type.has_value(), "no type has the number {}", name);
  return *type;
}

void quantize_file(const std::string& type, const std::string& in, const std::string& out) {
  const std::string bytes = read_text_file(in);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const auto blocks = quantize(type_named(type), values, in);
  write_file_atomically(out, [&](OutputFile& file) { file.write(blocks); });
}

void dequantize_file(const std::string& type, const std::string& in, const std::string& out) {
  const std::string bytes = read_text_file(in);
  const DTypeInfo& t = info(type_named(type));
  std::vector<float> values(bytes.size() / t.block_bytes * t.block_elements);
  dequantize(t.type, std::as_bytes(std::span(bytes)), values);
  write_file_atomically(out, [&](OutputFile& file) { file.write(std::as_bytes(std::span(values))); });
}

int run(const std::vector<std::string>& args) {
  const auto is = [&](std::string_view name, size_t n) { return args.size() == n + 1 && args[0] == name; };
  if (is("dump", 1)) {
    fmt::print("{}\n", dump(args[1]).dump());
  } else if (is("rewrite", 2)) {
    rewrite(args[1], args[2]);
  } else if (is("quantize", 3)) {
    quantize_file(args[1], args[2], args[3]);
  } else if (is("dequantize", 3)) {
    dequantize_file(args[1], args[2], args[3]);
  } else {
    fail("usage: see the first lines of format_tool.cpp");
  }
  return 0;
}

}  // namespace
}  // namespace folio::core

int main(int argc, char** argv) {
  try {
    return folio::core::run({argv + 1, argv + argc});
  } catch (const folio::core::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
