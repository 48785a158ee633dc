// What does not go together in a run: one table. A row is a condition and what is said where it holds.
#include <algorithm>

#include "core/error.h"
#include "train/config/train_config.h"

namespace folio::train {
namespace {

struct Row {
  std::vector<const char*> typed;  // unless empty, the row is for these flags, and its message goes on after one
  bool refused;
  std::string message;
};

Row idle(std::vector<const char*> flags, bool is_idle, const std::string& other, const char* remedy) {
  return {std::move(flags), is_idle, fmt::format(" changes nothing with {}; leave it out, or take {}", other, remedy)};
}

template <class... Args>
Row row(bool refused, fmt::format_string<const Args&...> message, const Args&... args) {
  return {{}, refused, fmt::format(message, args...)};
}

Row misfit(const char* what, int64_t n, const char* axis, int64_t parts, bool counts = true) {
  return row(counts && n % parts != 0, "--{}-parallel {}: the model has {} {}, which is no multiple", axis, parts, n,
             what);
}

std::vector<Row> table(const TrainConfig& c, const Request& request) {
  const core::ModelConfig& model = c.model;
  const core::FamilyInfo& family = core::info(model.family);
  const MeshFlags& mesh = c.mesh;
  const bool experts = model.n_experts > 0, lora = c.lora_rank > 0, cuda = c.device == DeviceKind::Cuda;
  const bool galore = c.optimizer == OptimizerKind::GaLore, is_constant = c.schedule == ScheduleKind::Constant;
  const bool is_text = !request.text.empty(), is_chat = !request.conversations.empty();
  const int64_t n_data = std::max<int64_t>(1, mesh.data);
  const bool data_alone = mesh.tensor * mesh.pipeline * mesh.context * mesh.expert == 1;
  const int64_t row_parts = n_data * mesh.expert;
  const int64_t position_parts = (mesh.context > 1 ? 2 * mesh.context : 1) * mesh.tensor;
  const std::string optimizer = fmt::format("--optimizer {}", c.optimizer);
  const std::string schedule = fmt::format("--schedule {}", c.schedule);

  return {
      // Flags without an effect.
      idle({"--momentum"}, c.optimizer != OptimizerKind::Muon, optimizer, "--optimizer muon"),
      idle({"--rank", "--galore-every", "--galore-scale"}, !galore, optimizer, "--optimizer galore"),
      idle({"--lora-alpha", "--lora-targets", "--lora-dropout"}, !lora, "--lora-rank 0", "a larger --lora-rank"),
      idle({"--experts-per-token", "--expert-dim", "--shared-experts", "--shared-dim", "--dense-layers",
            "--expert-groups", "--groups-per-token", "--normalize-routes", "--route-scale", "--balance",
            "--balance-rate"},
           !experts, "--experts 0", "more --experts"),
      idle({"--shared-experts"}, model.shared_dim != c.shared_experts * model.expert_dim, "--shared-dim", "it alone"),
      idle({"--decay-fraction"}, c.schedule != ScheduleKind::Wsd, schedule, "--schedule wsd"),
      idle({"--min-lr"}, is_constant, schedule, "--schedule cosine"),
      idle({"--recompute"}, c.recompute && !c.fused, "--fused false", "--fused true"),
      idle({"--steps", "--max-iters", "--epochs"}, c.minutes > 0.0, "--minutes", "it alone"),
      idle({"--steps", "--max-iters"}, c.epochs > 0.0, "--epochs", "it alone"),
      idle({"--validation-fraction"}, request.given("--eval"), "--eval", "it alone"),
      idle({"--rope-scaling-low", "--rope-scaling-high", "--rope-scaling-context"}, !model.rope_scaling.active(),
           "--rope-scaling 1", "a larger --rope-scaling"),

      // Windows, rates, splits.
      row(c.window > model.context_length, "--window is {}, more than the --context of {}", c.window,
          model.context_length),
      row(!is_constant && c.min_lr > c.lr, "--min-lr is {}, more than the --lr of {}", c.min_lr, c.lr),
      row(c.validation_fraction + c.test_fraction >= 1.0,
          "--validation-fraction {} and --test-fraction {} leave nothing to train on", c.validation_fraction,
          c.test_fraction),
      row(request.given("--profile") && cuda, "--profile measures a CPU's steps; leave --device out"),

      // What is trained on.
      row(is_text && request.given("--chat-template"),
          "--chat-template is for conversations, and the first line of {} has no \"messages\"", request.text),
      row(is_chat && request.given("--tokens-cache"),
          "--tokens-cache is for texts, and {} has conversations; leave it out", request.conversations),
      row(is_chat && c.across_documents != AcrossDocuments::True,
          "--across-documents is for texts, and {} has conversations; leave it out", request.conversations),
      row(is_chat && request.learns_tokenizer,
          "{} has conversations, which need a tokenizer that knows a chat's marks; take --init MODEL, or "
          "--tokenizer FILE",
          request.conversations),

      // Adapters.
      row(lora && !request.has_model, "--lora-rank trains adapters for a model; name it with --init"),
      row(lora && cuda, "--lora-rank trains on a CPU; leave --device out"),
      row(lora && c.ema > 0.0, "--ema averages whole models; leave it out with --lora-rank"),
      row(lora && c.dropout > 0.0, "--dropout is for the whole model; with --lora-rank take --lora-dropout"),
      row(lora && galore, "--optimizer galore is for whole matrices; with --lora-rank take adamw or muon"),
      row(lora && experts, "--lora-rank trains no adapters of a model with experts here"),
      row(lora && !data_alone, "--lora-rank: adapters are trained on data parallel ranks alone"),
      row(lora && mesh.zero > 0, "--zero {}: adapters are not divided; leave it out", mesh.zero),

      // Experts.
      row(experts && c.balance == Balance::Bias && !family.mixture.selection_bias,
          "--balance bias moves a selection bias, which a {} lacks; take --balance loss, or leave --family out",
          family.name),
      row(experts && c.balance == Balance::Loss && family.mixture.score != core::RouterScore::Softmax,
          "--balance loss is of probabilities, and the scores of a {} are none; take --balance bias", family.name),
      row(experts && model.shared_dim > 0 && !family.mixture.shared_gate && !family.mixture.deepseek,
          "a {} has no shared experts; leave --family out, or --shared-experts", family.name),
      row(experts && model.shared_dim == 0 && family.mixture.shared_gate,
          "a {} has shared experts; take --shared-experts 1", family.name),
      row(experts && galore, "--optimizer galore takes matrices, not stacks of experts; take adamw or muon"),
      row(experts && c.recompute, "--recompute computes no experts again; leave it out"),

      // Ranks.
      row(c.batch_size % row_parts != 0,
          "--batch-size {}: its windows are not divided by {} data and expert ranks; take a multiple", c.batch_size,
          row_parts),
      row(c.window % position_parts != 0, "--window {}: its positions are not divided by {} ({}); take a multiple",
          c.window, position_parts,
          mesh.context > 1 ? "two chunks for each context rank, times the tensor ranks" : "the tensor ranks"),
      misfit("heads", model.n_heads, "tensor", mesh.tensor),
      misfit("key/value heads", model.n_kv_heads, "tensor", mesh.tensor),
      misfit("hidden numbers", model.hidden_dim, "tensor", mesh.tensor, !experts || model.dense_layers > 0),
      row(cuda && mesh.pipeline > 1,
          "--pipeline-parallel: between two ranks NCCL takes messages in one order, and a schedule's have none; take "
          "another mesh with --device cuda"),
      row(cuda && mesh.context > 1,
          "--context-parallel: its attention is for CPUs; take another mesh with --device cuda"),
      row(mesh.tensor > 1 && family.qk_norm == core::QkNorm::All,
          "--tensor-parallel {}: a {} normalizes all heads at once, which no rank has; take another mesh", mesh.tensor,
          family.name),
      row((mesh.tensor > 1 || mesh.context > 1) && family.sinks,
          "--{}-parallel: a {} has attention sinks, which no rank's attention knows; take another mesh",
          mesh.tensor > 1 ? "tensor" : "context", family.name),
      row(mesh.expert > 1 && !experts,
          "--expert-parallel {}: the model has no experts; take --experts, or another mesh", mesh.expert),
      misfit("experts", model.n_experts, "expert", mesh.expert, experts),
      row(mesh.pipeline_chunks > 1 && mesh.pipeline == 1,
          "--pipeline-chunks {}: there is no pipeline; take --pipeline-parallel, too", mesh.pipeline_chunks),
      row(model.n_layers % (mesh.pipeline * mesh.pipeline_chunks) != 0,
          "--pipeline-parallel {}{}: the model has {} layers, which is no multiple", mesh.pipeline,
          mesh.pipeline_chunks > 1 ? fmt::format(" × --pipeline-chunks {}", mesh.pipeline_chunks) : "", model.n_layers),
      row(mesh.pipeline > 1 && experts && c.balance == Balance::Loss && c.balance_rate > 0.0,
          "--pipeline-parallel: the loss of --balance is of all layers at once, which no rank has; take --balance "
          "bias, or --balance-rate 0"),
      row(mesh.zero > 0 && n_data == 1,
          "--zero {} divides what data parallel ranks have, and there is one such rank; leave it out", mesh.zero),
      row(mesh.zero == 3 && experts,
          "--zero 3: blocks with experts are not sharded; take --expert-parallel, or --zero 2"),
      row(mesh.zero == 3 && c.ema > 0.0, "--zero 3: there is no average of sharded weights; leave --ema out"),
      row(galore && (mesh.zero > 0 || !data_alone),
          "--optimizer galore: its state has shapes of its own, and is not divided; take data parallel ranks alone, "
          "without --zero"),
  };
}

}  // namespace

void validate(const TrainConfig& c, const Request& request) {
  try {
    core::ModelConfig shape = c.model;
    shape.vocab_size = std::max<int64_t>(1, shape.vocab_size);  // 0 until the corpus is known
    core::validate(shape,
                   "--layers, --heads, --kv-heads, --dim, --head-dim, --hidden-dim, --experts, --context or "
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
