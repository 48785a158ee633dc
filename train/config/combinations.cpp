// The table of settings that cannot be combined in a run. Each row has a condition and an error message for it.
#include <algorithm>

#include "core/error.h"
#include "core/formats/family_files.h"
#include "train/config/train_config.h"

namespace folio::train {
namespace {

struct Rejection {
  std::vector<const char*> typed;  // if not empty, the row applies only if the command line has one of these flags
  bool refused;
  std::string message;
};

Rejection idle(std::vector<const char*> flags, bool is_idle, const std::string& other, const char* remedy) {
  return {std::move(flags), is_idle, fmt::format(" has no effect with {}; remove it or {}", other, remedy)};
}

template <class... Args>
Rejection row(bool refused, fmt::format_string<const Args&...> message, const Args&... args) {
  return {{}, refused, fmt::format(message, args...)};
}

Rejection misfit(const char* what, int64_t n, const char* axis, int64_t parts, bool counts = true) {
  return row(counts && n % parts != 0, "--{}-parallel {}: the model has {} {}, expected a multiple of {}", axis, parts,
             n, what, parts);
}

// Returns a list for --lora-targets of the matrices that can have adapters, such as "o,down".
std::string adaptable_targets(const core::ModelConfig& model) {
  std::vector<const char*> names{"q", "k", "v", "o", "gate", "up", "down"};
  const auto matrices = core::adaptable_matrices(model);
  std::erase_if(names, [&](const char* name) {
    return std::ranges::find(matrices, lora::lora_targets(name).front(), &core::TensorSpec::role) == matrices.end();
  });
  return fmt::format("{}", fmt::join(names, ","));
}

std::vector<Rejection> table(const TrainConfig& c, const RunRequest& request) {
  const core::ModelConfig& model = c.model;
  const core::FamilyInfo& family = core::info(model.family);
  const MeshFlags& mesh = c.mesh;
  const bool experts = model.n_experts > 0, lora = c.lora_rank > 0, cuda = c.device == DeviceKind::Cuda;
  const bool galore = c.optimizer == OptimizerKind::GaLore, is_constant = c.schedule == ScheduleKind::Constant;
  const bool ahead = model.n_tokens_ahead > 0;
  const bool is_text = !request.text.empty(), is_chat = !request.conversations.empty();
  const int64_t n_data = std::max<int64_t>(1, mesh.data);
  const bool data_alone = mesh.tensor * mesh.pipeline * mesh.context * mesh.expert == 1;
  const int64_t row_parts = n_data * mesh.expert;
  const int64_t position_parts = (mesh.context > 1 ? 2 * mesh.context : 1) * mesh.tensor;
  const std::string optimizer = fmt::format("--optimizer {}", c.optimizer);
  const std::string schedule = fmt::format("--schedule {}", c.schedule);
  const std::string adaptable = lora ? adaptable_targets(model) : "all";

  return {
      // Flags that have no effect because of another setting.
      idle({"--momentum"}, c.optimizer != OptimizerKind::Muon, optimizer, "use --optimizer muon"),
      idle({"--rank", "--galore-every", "--galore-scale"}, !galore, optimizer, "use --optimizer galore"),
      idle({"--lora-alpha", "--lora-targets", "--lora-dropout"}, !lora, "--lora-rank 0", "raise --lora-rank"),
      idle({"--experts-per-token", "--expert-dim", "--shared-experts", "--shared-dim", "--dense-layers",
            "--expert-groups", "--groups-per-token", "--normalize-routes", "--route-scale", "--balance",
            "--balance-rate", "--balance-loss"},
           !experts, "--experts 0", "raise --experts"),
      idle({"--kv-heads", "--head-dim"}, model.latent(), "latent attention",
           "use --qk-nope-head-dim, --qk-rope-head-dim and --v-head-dim"),
      idle({"--shared-experts"}, model.shared_dim != c.shared_experts * model.expert_dim, "--shared-dim",
           "remove --shared-dim"),
      idle({"--mtp-weight"}, !ahead, "--mtp 0", "use --mtp 1"),
      idle({"--decay-fraction"}, c.schedule != ScheduleKind::Wsd, schedule, "use --schedule wsd"),
      idle({"--min-lr"}, is_constant, schedule, "use --schedule cosine"),
      idle({"--recompute"}, c.recompute && !c.fused, "--fused false", "use --fused true"),
      idle({"--steps", "--max-iters", "--epochs"}, c.minutes > 0.0, "--minutes", "remove --minutes"),
      idle({"--steps", "--max-iters"}, c.epochs > 0.0, "--epochs", "remove --epochs"),
      idle({"--validation-fraction"}, request.given("--eval"), "--eval", "remove --eval"),
      idle({"--dump-batches", "--dump-grads", "--trace"}, request.given("--profile"), "--profile", "remove --profile"),
      idle({"--rope-scaling-low", "--rope-scaling-high", "--rope-scaling-context"}, !model.rope_scaling.active(),
           "--rope-scaling 1", "raise --rope-scaling"),

      // Shapes that transformers does not load.
      row(!request.has_model && core::hf_family(model.family).whole_heads && model.dim % model.n_heads != 0,
          "--dim is {}, expected a multiple of --heads {} in the family {}", model.dim, model.n_heads, family.name),
      row(!request.has_model && family.qk_norm == core::QkNorm::All && experts && model.query_dim() != model.dim,
          "--head-dim is {}, expected --dim {} / --heads {} in the family {}", model.head_dim, model.dim, model.n_heads,
          family.name),

      row(model.context_length < 2, "--context is {}, expected at least 2, for a prompt's token and a generated one",
          model.context_length),
      row(c.window > model.context_length, "--window is {}, which exceeds --context {}", c.window,
          model.context_length),
      row(!is_constant && c.min_lr > c.lr, "--min-lr is {}, which exceeds --lr {}", c.min_lr, c.lr),
      row(c.validation_fraction + c.test_fraction >= 1.0,
          "--validation-fraction {} and --test-fraction {} leave no training data", c.validation_fraction,
          c.test_fraction),
      row(request.given("--profile") && cuda, "--profile supports only CPUs; remove --device"),

      row(is_text && request.given("--chat-template"),
          "--chat-template requires conversations, but the first line of {} has no \"messages\"", request.text),
      row(is_chat && request.given("--tokens-cache"),
          "--tokens-cache supports only plain text, but {} has conversations; remove it", request.conversations),
      row(is_chat && c.across_documents != AcrossDocuments::True,
          "--across-documents supports only plain text, but {} has conversations; remove it", request.conversations),
      row(is_chat && request.learns_tokenizer,
          "{} has conversations, which need a tokenizer with chat tokens; use --init MODEL or --tokenizer FILE",
          request.conversations),

      row(lora && !request.has_model, "--lora-rank requires a base model; specify it with --init"),
      row(lora && cuda, "--lora-rank supports only CPUs; remove --device"),
      row(lora && c.ema > 0.0, "--ema does not support adapters; remove it or --lora-rank"),
      row(lora && c.dropout > 0.0, "--dropout does not support adapters; use --lora-dropout with --lora-rank"),
      row(lora && galore, "--optimizer galore does not support adapters; use adamw or muon with --lora-rank"),
      row(lora && experts, "--lora-rank does not support models with experts"),
      row(lora && model.latent(), "--lora-rank does not support latent attention, which the family {} has",
          family.name),
      row(lora && !std::ranges::includes(lora::lora_targets(adaptable), lora::lora_targets(c.lora_targets)),
          "--lora-targets {}: files of the family {} fuse some of these matrices; use --lora-targets {}",
          c.lora_targets, family.name, adaptable),
      row(galore && model.latent(), "--optimizer galore does not support latent attention; use adamw or muon"),
      row(mesh.context > 1 && model.latent(),
          "--context-parallel does not support latent attention, which the family {} has; use another mesh",
          family.name),
      row(mesh.context > 1 && (is_chat || c.across_documents == AcrossDocuments::Mask),
          "--context-parallel does not support windows of several sequences, which {}; use another mesh",
          is_chat ? "conversations have" : "--across-documents mask creates"),
      row(lora && ahead,
          "--lora-rank does not support a model with a module of --mtp; remove it with export --layers {}",
          model.n_layers),
      row(ahead && mesh.tensor * mesh.pipeline * mesh.context > 1,
          "--mtp supports only data-parallel and expert-parallel ranks; use another mesh or --mtp 0"),
      row(ahead && mesh.zero == 3, "--mtp does not support --zero 3; use --zero 2 or --mtp 0"),
      row(ahead && c.window < 2, "--mtp requires a --window of at least 2 tokens"),
      row(lora && !data_alone, "--lora-rank supports only data-parallel ranks"),
      row(lora && mesh.zero > 0, "--zero {} does not support adapters; remove it", mesh.zero),

      row(experts && c.balance == Balance::Bias && !family.mixture.selection_bias,
          "--balance bias requires a selection bias, which the family {} lacks; use --balance loss or remove --family",
          family.name),
      row(experts && c.balance == Balance::Loss && family.mixture.score != core::RouterScore::Softmax,
          "--balance loss requires softmax router scores, which the family {} lacks; use --balance bias, also with "
          "--balance-loss",
          family.name),
      row(experts && model.shared_dim > 0 && !family.mixture.shared_gate && !family.mixture.deepseek,
          "the family {} has no shared experts; remove --family or --shared-experts", family.name),
      row(experts && model.shared_dim == 0 && family.mixture.shared_gate,
          "the family {} requires a shared expert; use --shared-experts 1", family.name),
      row((mesh.tensor > 1 || mesh.context > 1) && experts && c.balance_loss > 0.0,
          "--{}-parallel: --balance-loss needs whole sequences, but each rank has a part of them; use another mesh",
          mesh.tensor > 1 ? "tensor" : "context"),
      row(mesh.pipeline > 1 && experts && c.balance_loss > 0.0,
          "--pipeline-parallel does not support --balance-loss; use another mesh"),
      row(experts && galore, "--optimizer galore does not support experts; use adamw or muon"),
      row(experts && c.recompute, "--recompute does not support experts; remove it"),
      row(model.latent() && model.rope_scaling.active() && model.rope_scaling.type != core::RopeScalingType::Yarn,
          "--rope-scaling does not support latent attention, whose GGUFs can store only yarn; remove it"),
      row(c.recompute && model.latent(), "--recompute does not support latent attention; remove it"),

      row(c.batch_size % row_parts != 0, "--batch-size is {}, expected a multiple of {} (data ranks × expert ranks)",
          c.batch_size, row_parts),
      row(c.window % position_parts != 0, "--window is {}, expected a multiple of {} ({})", c.window, position_parts,
          mesh.context > 1 ? "2 × context ranks × tensor ranks" : "tensor ranks"),
      misfit("heads", model.n_heads, "tensor", mesh.tensor),
      misfit("key/value heads", model.n_kv_heads, "tensor", mesh.tensor),
      misfit("hidden dimensions", model.hidden_dim, "tensor", mesh.tensor, !experts || model.dense_layers > 0),
      row(cuda && mesh.pipeline > 1,
          "--pipeline-parallel does not support --device cuda: NCCL requires a fixed order of messages between two "
          "ranks; use another mesh"),
      row(cuda && mesh.context > 1, "--context-parallel supports only CPUs; use another mesh with --device cuda"),
      row(mesh.tensor > 1 && family.qk_norm == core::QkNorm::All,
          "--tensor-parallel {}: the family {} normalizes all heads together, but each rank has only some; use another "
          "mesh",
          mesh.tensor, family.name),
      row((mesh.tensor > 1 || mesh.context > 1) && family.sinks,
          "--{}-parallel does not support attention sinks, which the family {} has; use another mesh",
          mesh.tensor > 1 ? "tensor" : "context", family.name),
      row(mesh.expert > 1 && !experts, "--expert-parallel {}: the model has no experts; use --experts or another mesh",
          mesh.expert),
      misfit("experts", model.n_experts, "expert", mesh.expert, experts),
      row(mesh.pipeline_chunks > 1 && mesh.pipeline == 1,
          "--pipeline-chunks {} requires a pipeline; add --pipeline-parallel", mesh.pipeline_chunks),
      row(model.n_layers % (mesh.pipeline * mesh.pipeline_chunks) != 0,
          "--pipeline-parallel {}{}: the model has {} layers, expected a multiple of {}", mesh.pipeline,
          mesh.pipeline_chunks > 1 ? fmt::format(" × --pipeline-chunks {}", mesh.pipeline_chunks) : "", model.n_layers,
          mesh.pipeline * mesh.pipeline_chunks),
      row(mesh.pipeline > 1 && experts && c.balance == Balance::Loss && c.balance_rate > 0.0,
          "--pipeline-parallel: --balance loss needs all layers, but each rank has only some; use --balance bias or "
          "--balance-rate 0"),
      row(mesh.zero > 0 && n_data == 1,
          "--zero {} shards state across data-parallel ranks, but there is only one; remove it", mesh.zero),
      row(mesh.zero == 3 && experts, "--zero 3 does not support experts; use --expert-parallel or --zero 2"),
      row(mesh.zero == 3 && c.ema > 0.0, "--zero 3 does not support --ema; remove one of them"),
      row(galore && (mesh.zero > 0 || !data_alone),
          "--optimizer galore does not support sharded state; use only data-parallel ranks, without --zero"),
  };
}

}  // namespace

void validate(const TrainConfig& c, const RunRequest& request) {
  try {
    core::ModelConfig shape = c.model;
    shape.vocab_size = std::max<int64_t>(1, shape.vocab_size);  // 0 until the corpus is read
    core::validate(shape,
                   "--layers, --heads, --kv-heads, --dim, --head-dim, --kv-lora-rank, --q-lora-rank, "
                   "--qk-nope-head-dim, --qk-rope-head-dim, --v-head-dim, --hidden-dim, --experts, --context or "
                   "--sliding-window");
  } catch (const core::Error& error) {
    throw core::UsageError(error.what());
  }
  if (c.lora_rank > 0) static_cast<void>(lora::lora_targets(c.lora_targets));
  for (const auto& [flags, refused, message] : table(c, request)) {
    if (refused && flags.empty()) throw core::UsageError(message);
    const auto typed = std::ranges::find_if(flags, request.typed);
    if (refused && typed != flags.end()) throw core::UsageError(*typed + message);
  }
}

}  // namespace folio::train
