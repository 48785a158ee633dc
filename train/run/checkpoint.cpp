#include "train/run/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <set>

#include "core/error.h"
#include "core/formats/adapter_files.h"
#include "core/formats/safetensors.h"
#include "core/version.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::require;

constexpr const char* kWeights = "weights.";  // name prefix of trained weights, stored in addition to their average
constexpr const char* kRandom = "random_state.";
constexpr const char* kCudaRandom = "random_state.cuda";

// Returns the random generators used in training. Dropout uses the generator of the model's device.
std::vector<std::pair<std::string, at::Generator>> generators(const nn::Llama& model) {
  std::vector<std::pair<std::string, at::Generator>> all{{"random_state.cpu", at::detail::getDefaultCPUGenerator()}};
  const torch::Device device = model->parameters().front().device();
  if (device.is_cuda()) all.emplace_back(kCudaRandom, at::globalContext().defaultGenerator(device));
  return all;
}

core::DType type_of(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat32 ? core::DType::F32 : core::DType::U8;
}

void write_optimizer(const fs::path& path, std::vector<Optimizer::State> tensors, int64_t steps) {
  std::vector<core::TensorView> views;
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.detach().to(torch::kCPU).contiguous();
    views.push_back({.name = name,
                     .type = type_of(tensor),
                     .shape = tensor.sizes().vec(),
                     .bytes = {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
  }
  core::write_safetensors(path, views, {{"format", "pt"}, {"steps", std::to_string(steps)}});
}

void copy_into(const core::SafetensorsFile& file, const std::string& name, torch::Tensor to,
               parallel::RankModel* ranks = nullptr) {
  const core::TensorView* view = file.find_tensor(name);
  const std::string where = file.path().string();
  require(view != nullptr, "{}: tensor {} is missing", where, name);
  const auto require_fits = [&](bool fits) {
    require(fits, "{}: tensor {} is {} {}, expected {} {}", where, name, core::info(view->type).name,
            core::shape_string(view->shape), core::info(type_of(to)).name, core::shape_string(to.sizes().vec()));
  };
  require_fits(view->type == type_of(to));
  const torch::NoGradGuard no_grad;
  torch::Tensor from =
      torch::from_blob(const_cast<std::byte*>(view->bytes.data()), view->shape, torch::dtype(to.scalar_type()));
  if (ranks != nullptr) from = ranks->part_of(name.substr(name.find('.') + 1), from);
  require_fits(from.sizes() == to.sizes());
  to.copy_(from);
}

// Throws core::Error if the file has optimizer state that this run would silently drop. With several ranks
// (`of_ranks`), `optimizer` has only this rank's state, so names are compared with the model's parameters.
void require_no_other_state(const core::SafetensorsFile& file, const nn::Llama& model, const Optimizer& optimizer,
                            bool of_ranks) {
  const auto parameters = model->named_parameters();
  std::set<std::string> states;
  for (const auto& state : optimizer.state()) states.insert(state.name);
  for (const core::TensorView& view : file.tensors()) {
    const bool other = view.name.starts_with(kRandom) || view.name.starts_with("__pad__.");
    const bool by_parameter = of_ranks || view.name.starts_with(kWeights);
    const bool known =
        by_parameter ? parameters.contains(view.name.substr(view.name.find('.') + 1)) : states.contains(view.name);
    require(other || known, "{}: unexpected tensor {}; this run has no such parameter", file.path().string(),
            core::printable(view.name));
  }
}

}  // namespace

Environment this_environment() {
  return {.folio = std::string(core::version()),
          .libtorch = TORCH_VERSION,
          .cpu = at::get_cpu_capability(),
          .threads = at::get_num_threads()};
}

void write_adapter(const fs::path& directory, const nn::Llama& model, const TrainerState& state, Copied what) {
  core::AdapterInfo info = adapter_info(state.config);
  info.base = state.base;
  core::write_adapter(directory, model->config(), adapter_of(model, info, what), info);
}

void save_checkpoint(const fs::path& run, parallel::RankModel& model, parallel::RankModel* average,
                     const Optimizer& optimizer, const TrainerState& state, const data::Tokenizer& tokenizer,
                     const core::GenerationConfig& generation) {
  const nn::Llama whole = model.whole(), shown = average != nullptr ? average->whole() : whole;
  std::vector<Optimizer::State> tensors = whole_state(optimizer, model);
  if (!model.world().is_first()) return;
  if (average != nullptr) {
    for (const auto& parameter : whole->named_parameters())
      tensors.push_back({kWeights + parameter.key(), parameter.value()});
  }
  for (const auto& [name, generator] : generators(whole)) tensors.push_back({name, generator.get_state()});
  commit_checkpoint(run, state.step, state.best_step, [&](const fs::path& directory) {
    if (state.config.lora_rank > 0) {
      write_adapter(directory, whole, state);
    } else {
      const core::Weights weights = weights_of(shown);
      core::write_hf_model(directory, weights.config, weights.views(), tokenizer.begin_of_text(),
                           tokenizer.end_of_text());
      core::write_generation_config(directory, generation, tokenizer.begin_of_text(), tokenizer.end_of_text());
    }
    tokenizer.write_hf(directory);
    write_optimizer(directory / "optimizer.safetensors", tensors, state.step);
    write_trainer_state(directory, state);
  });
}

void load_checkpoint(const fs::path& checkpoint, parallel::RankModel& model, parallel::RankModel* average,
                     Optimizer& optimizer, const TrainerState& state) {
  nn::Llama whole = model.to_fill(), shown = average != nullptr ? average->to_fill() : whole;
  if (state.config.lora_rank > 0) {
    load_adapter(core::read_peft_adapter(checkpoint, whole->config()), whole);
  } else {
    load_weights(core::read_hf_model(checkpoint), shown);
  }
  const core::SafetensorsFile file(checkpoint / "optimizer.safetensors");
  const auto steps = file.metadata().find("steps");
  require(steps != file.metadata().end() && steps->second == std::to_string(state.step),
          "{}: the optimizer state is not from step {}, the step in trainer.json", file.path().string(), state.step);
  require_no_other_state(file, whole, optimizer, model.world().mesh().shape().n_ranks() > 1);
  for (const auto& [name, tensor] : optimizer.state()) copy_into(file, name, tensor, &model);
  if (average != nullptr) {
    for (const auto& parameter : whole->named_parameters())
      copy_into(file, kWeights + parameter.key(), parameter.value());
  }
  optimizer.set_steps(state.step);
  for (auto& [name, generator] : generators(whole)) {
    // A checkpoint saved without a GPU has no state for the GPU's generator, which then keeps the state from its seed.
    if (name == kCudaRandom && file.find_tensor(name) == nullptr) continue;
    torch::Tensor random = generator.get_state().clone();
    copy_into(file, name, random);
    generator.set_state(random);
  }
  model.load(whole);
  if (average != nullptr) average->load(shown);
}

}  // namespace folio::train
