// Tests core/formats/model_files.h: the format is detected from a file's content, not its name, and each format gives
// the same model.
#include "core/formats/model_files.h"

#include <gtest/gtest.h>

#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::bytes_of;
using test::llama2c_shapes;
using test::numbered_weights;
using test::TempDir;
using test::write_bytes;
using test::write_hf_directory;

TEST(ReadModel, DetectsTheFormatFromContent) {
  for (const ModelConfig& config : llama2c_shapes()) {
    const TempDir dir;
    const Weights weights = numbered_weights(config);
    std::filesystem::create_directory(dir / "m.gguf");
    write_hf_directory(dir / "m.gguf", weights, 3);
    write_gguf_model(dir / "m.safetensors", weights.config, weights.views(), "name", {});
    for (const int version : {0, 1}) {
      write_llama2c(dir / (fmt::format("m{}", version)), config, weights.views(), version);
    }
    const std::vector<std::pair<std::string, ModelFormat>> formats{{"m.gguf", ModelFormat::HuggingFace},
                                                                   {"m.safetensors", ModelFormat::Gguf},
                                                                   {"m0", ModelFormat::Llama2cV0},
                                                                   {"m1", ModelFormat::Llama2cV1}};
    for (const auto& [name, format] : formats) {
      const StoredModel model = read_model(dir / name);
      EXPECT_EQ(model.format, format) << format_name(model.format);
      EXPECT_EQ(is_llama2c(format), name == "m0" || name == "m1");
      EXPECT_EQ(model.path, (dir / name).string());
      EXPECT_EQ(model.gguf != nullptr, format == ModelFormat::Gguf) << "where the tokenizer is inside";
      EXPECT_EQ(model.config, config) << describe_difference(config, model.config);
      EXPECT_EQ(bytes_of(model.tensors), bytes_of(weights.views())) << name;
    }
  }
}

TEST(ReadModel, ModelsOutliveTheReader) {
  const TempDir dir;
  const Weights weights = numbered_weights(llama2c_shapes()[1]);
  write_llama2c(dir / "m", weights.config, weights.views(), 2);
  const StoredModel model = read_model(dir / "m");  // `storage` owns the dequantized tensors
  std::filesystem::remove(dir / "m");
  EXPECT_EQ(to_weights(model).tensors.size(), weights.tensors.size());
  const StoredModel copy = model;
  EXPECT_EQ(bytes_of(copy.tensors), bytes_of(model.tensors));
}

TEST(ReadModel, RejectsUnknownFiles) {
  const TempDir dir;
  EXPECT_ERROR(read_model(dir / "none"), "none: No such file or directory");
  EXPECT_ERROR(read_model(dir.path()), "config.json: no such file");
  write_bytes(dir / "empty", "");
  EXPECT_ERROR(read_model(dir / "empty"), "empty is an empty file");
  write_bytes(dir / "short", "GGU");
  EXPECT_ERROR(read_model(dir / "short"), "short: the file has 3 bytes, too few for a model");
  write_bytes(dir / "text", std::string(1000, 'a'));
  EXPECT_ERROR(read_model(dir / "text"), "text: neither a GGUF nor a llama2.c file: ");
}

}  // namespace
}  // namespace folio::core
