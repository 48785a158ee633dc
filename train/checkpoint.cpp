#include "train/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "train/weights.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::require;

constexpr int kVersion = 1;
constexpr const char* kRandomState = "random_state.cpu";

core::TensorView view_of(const std::string& name, const torch::Tensor& tensor) {
  require(tensor.is_contiguous() && tensor.device().is_cpu(), "tensor {} is not contiguous in the CPU's memory", name);
  return {.name = name,
          .type = tensor.scalar_type() == torch::kFloat32 ? core::DType::F32 : core::DType::U8,
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
}

void write_optimizer(const fs::path& path, const AdamW& optimizer) {
  std::vector<torch::Tensor> kept;  // alive until written
  std::vector<core::TensorView> views;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    kept.push_back(tensor.detach().to(torch::kCPU).contiguous());
    views.push_back(view_of(name, kept.back()));
  };
  for (const auto& moments : optimizer.moments()) {
    add("exp_avg." + moments.name, moments.first);
    add("exp_avg_sq." + moments.name, moments.second);
  }
  add(kRandomState, at::detail::getDefaultCPUGenerator().get_state());
  core::write_safetensors(path, views, {{"format", "pt"}, {"steps", std::to_string(optimizer.steps())}});
}

void copy_into(const core::SafetensorsFile& file, const std::string& name, torch::Tensor to) {
  const core::TensorView* view = file.find_tensor(name);
  require(view != nullptr && view->shape == to.sizes().vec() && view->bytes.size() == to.nbytes(),
          "{}: the tensor {} of shape {} is missing", file.path().string(), name, core::shape_string(to.sizes().vec()));
  const torch::NoGradGuard no_grad;
  to.copy_(torch::from_blob(const_cast<std::byte*>(view->bytes.data()), to.sizes(), to.scalar_type()));
}

void point_link(const fs::path& checkpoints, const std::string& link, const std::string& target) {
  const fs::path temporary = checkpoints / ("." + link + ".tmp");
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_directory_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, checkpoints / link, error);
  require(!error, "cannot point {} at {}: {}", (checkpoints / link).string(), target, error.message());
}

void remove_unnamed(const fs::path& checkpoints) {
  std::error_code error;
  const std::string last = fs::read_symlink(checkpoints / "last", error).string();
  const std::string best = fs::read_symlink(checkpoints / "best", error).string();
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("step-") || name.starts_with(".step-");
    if (ours && name != last && name != best) fs::remove_all(entry.path(), error);
  }
}

std::string step_name(int64_t step) { return fmt::format("step-{:06}", step); }

}  // namespace

std::string corpus_digest(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return fmt::format("{:016x}", hash);
}

void save_checkpoint(const fs::path& run, const nn::Llama& model, const AdamW& optimizer, const TrainerState& state,
                     const data::CharTokenizer& tokenizer) {
  const fs::path checkpoints = run / "checkpoints";
  const std::string name = step_name(state.step);
  const fs::path temporary = checkpoints / ("." + name + ".tmp");
  try {
    fs::create_directories(checkpoints);
    fs::remove_all(temporary);
    fs::create_directory(temporary);
    core::write_hf_directory(temporary, weights_of(model), tokenizer.end_of_text());
    tokenizer.write_hf(temporary);
    write_optimizer(temporary / "optimizer.safetensors", optimizer);
    const nlohmann::ordered_json json = {{"version", kVersion},
                                         {"step", state.step},
                                         {"corpus", state.corpus},
                                         {"corpus_path", state.corpus_path},
                                         {"corpus_digest", state.corpus_digest},
                                         {"best_validation_loss", state.best_validation_loss},
                                         {"best_step", state.best_step},
                                         {"config", to_json(state.config)}};
    core::write_file_atomically(temporary / "trainer.json", json.dump(2) + "\n");
    core::sync_directory(temporary);
    // The same step is saved twice when a run is resumed at its last checkpoint; both are the same bits.
    fs::remove_all(checkpoints / name);
    fs::rename(temporary, checkpoints / name);
  } catch (const fs::filesystem_error& error) {
    core::fail("cannot write the checkpoint {}: {}", (checkpoints / name).string(), error.code().message());
  }
  core::sync_directory(checkpoints);
  point_link(checkpoints, "last", name);
  if (state.best_step == state.step) point_link(checkpoints, "best", name);
  core::sync_directory(checkpoints);
  remove_unnamed(checkpoints);
}

TrainerState read_trainer_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "trainer.json";
  const std::string where = path.string();
  const nlohmann::json json = core::parse_json(core::read_text_file(path, size_t{16} << 20U), where);
  const auto version = core::json_get<int64_t>(json, "version", where);
  require(version == kVersion, "{}: version {} is not read here ({} is); train anew", where, version, kVersion);
  TrainerState state;
  state.step = core::json_get<int64_t>(json, "step", where);
  state.corpus = core::json_get<std::string>(json, "corpus", where);
  state.corpus_path = core::json_get<std::string>(json, "corpus_path", where);
  state.corpus_digest = core::json_get<std::string>(json, "corpus_digest", where);
  state.best_validation_loss = core::json_get<double>(json, "best_validation_loss", where);
  state.best_step = core::json_get<int64_t>(json, "best_step", where);
  state.config = config_from_json(core::json_get<nlohmann::json>(json, "config", where), where + ": config");
  return state;
}

void load_checkpoint(const fs::path& checkpoint, nn::Llama& model, AdamW& optimizer, const TrainerState& state) {
  load_weights(core::read_hf_directory(checkpoint), model);
  const core::SafetensorsFile file(checkpoint / "optimizer.safetensors");
  for (const auto& moments : optimizer.moments()) {
    copy_into(file, "exp_avg." + moments.name, moments.first);
    copy_into(file, "exp_avg_sq." + moments.name, moments.second);
  }
  optimizer.set_steps(state.step);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  torch::Tensor random = generator.get_state().clone();
  copy_into(file, kRandomState, random);
  generator.set_state(random);
}

}  // namespace folio::train
