// All settings of a training run: model, batches, optimizer, schedule, logging, ranks. `visit_fields` is the only list
// of the trainer's own fields: command-line flags and their limits, config.toml, trainer.json and the comparison of
// settings between ranks all use it. Invalid combinations are listed in combinations.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/adapter.h"
#include "core/model_config.h"
#include "train/config/choices.h"
#include "train/lora/lora.h"

namespace folio::train {

/// Ranks per mesh dimension and related settings.
struct MeshFlags {
  int64_t data = 0, tensor = 1, pipeline = 1, context = 1, expert = 1;  ///< ranks; data 0: all remaining ranks
  int64_t pipeline_chunks = 1;
  int64_t zero = 0;
  double timeout = 600.0;  ///< seconds to wait for another rank

  bool operator==(const MeshFlags&) const = default;
};

/// Specifies whether a field is stored with the run. InFiles: yes, in config.toml and trainer.json. ByRanks: no, it is
/// a command-line flag, equal on all ranks. ByProcess: no, it is a command-line flag that may differ between processes.
enum class Kept { InFiles, ByRanks, ByProcess };

struct TrainField : core::ConfigField {
  Kept kept = Kept::InFiles;
};

struct TrainConfig {
  std::string preset = "tiny";
  core::ModelConfig model;  ///< vocab_size is set from the corpus

  int64_t steps = 2500;
  int64_t batch_size = 4;    ///< windows per batch
  int64_t window = 256;      ///< tokens per training or validation window; at most the model's context
  int64_t accumulation = 1;  ///< batches per optimizer step
  /// False: padding after a document's end; True: the next document follows; Mask: it follows as a separate sequence.
  AcrossDocuments across_documents = AcrossDocuments::True;
  double dropout = 0.0;
  uint64_t seed = 1337;

  int64_t lora_rank = 0;  ///< rank of trained adapters; 0: train the model's own weights
  double lora_alpha = 16.0;
  std::string lora_targets = "all";
  double lora_dropout = 0.0;

  Balance balance = Balance::Loss;  ///< load balancing method for experts
  double balance_rate = 1e-3;       ///< factor of the balancing loss, or change of the bias per step; 0: off
  double balance_loss = 0.0;        ///< factor of an additional balancing loss within each sequence; 0: off

  double mtp_weight = 0.3;  ///< factor of the loss of multi-token prediction, if model.n_tokens_ahead > 0

  OptimizerKind optimizer = OptimizerKind::AdamW;
  double lr = 2e-3;
  double min_lr = 2e-4;  ///< learning rate at the end of the run; unused by the constant schedule
  ScheduleKind schedule = ScheduleKind::Cosine;
  int64_t warmup_steps = 100;
  double decay_fraction = 0.2;  ///< fraction of the steps, at the end, in which "wsd" decays the learning rate
  double beta1 = 0.9;
  double beta2 = 0.99;
  double adam_eps = 1e-8;
  double momentum = 0.95;  ///< Muon's momentum
  /// GaLore's rank; the default is a quarter of the default model's width. The paper uses 1/4 to 1/2 of the width.
  int64_t rank = 32;
  int64_t galore_every = 200;
  double galore_scale = 0.25;
  double weight_decay = 0.1;
  bool decay_embeddings = true;
  bool decay_norms = false;
  double clip = 1.0;       ///< maximum global gradient norm; 0: off
  bool fused = true;       ///< use fused modules where available; false: the plain modules
  bool recompute = false;  ///< activation checkpointing: recompute activations in the backward pass; requires `fused`
  Precision dtype = Precision::F32;  ///< type of matrix products; a run's files store the type that Auto selected
  DeviceKind device = DeviceKind::Cpu;

  double validation_fraction = 0.1;
  double test_fraction = 0.0;
  double ema = 0.0;  ///< decay of an average of the weights, which is evaluated and saved; 0: off
  int64_t eval_every = 500;
  int64_t eval_batches = 0;  ///< random batches per split; 0: the whole validation split in consecutive windows
  int64_t sample = 100;      ///< tokens of the sample completion at each evaluation; 0: none
  int64_t patience = 0;      ///< evaluations without a better validation loss before the run ends; 0: off
  int64_t checkpoint_every = 500;
  Exported exported = Exported::Best;  ///< Best: model.gguf is the checkpoint with the lowest validation loss
  int64_t log_every = 10;
  /// Progress: a bar on a terminal, else lines; Epoch: lines with Epoch | Loss | Time | ETA.
  LogStyle log_style = LogStyle::Progress;

  double minutes = 0.0;        ///< if > 0, duration of the run, instead of `steps`
  double epochs = 0.0;         ///< if > 0, passes over the dataset, instead of `steps`
  int threads = 0;             ///< number of threads; 0: all cores
  int64_t shared_experts = 0;  ///< if > 0, sets model.shared_dim to this many times expert_dim
  MeshFlags mesh;

  bool operator==(const TrainConfig&) const = default;

  /// Calls visit(group, field, TrainField) for each field except the model's. `group` is a section of train --help.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    using F = TrainField;
    const auto visit_ranks = [&](const char* flag, auto& n, const char* help) {
      visit("Parallelism", n, F{flag, help, 1, 1 << 16, F::kLater, Kept::ByRanks});
    };
    visit_ranks("data-parallel", self.mesh.data,
                "ranks that share the weights and split each batch (default: all remaining ranks)");
    visit_ranks("tensor-parallel", self.mesh.tensor, "ranks that split heads, hidden units and positions");
    visit_ranks("pipeline-parallel", self.mesh.pipeline,
                "ranks that split the layers; micro-batches are those of --accumulation");
    visit_ranks("pipeline-chunks", self.mesh.pipeline_chunks, "ranges of layers per pipeline rank");
    visit_ranks("context-parallel", self.mesh.context, "ranks that split a window's positions, with ring attention");
    visit_ranks("expert-parallel", self.mesh.expert, "ranks that split the experts, and each batch");
    visit("Parallelism", self.mesh.zero,
          F{"zero",
            "ZeRO stage: 1 shards the optimizer state over data-parallel ranks, 2 also gradients, 3 also "
            "weights; 0: off",
            0, 3, F::kLater, Kept::ByRanks});
    visit("Parallelism", self.mesh.timeout,
          F{"rank-timeout", "seconds to wait for another rank", 1, 1e6, F::kLater, Kept::ByProcess});
    visit("Run", self.minutes,
          F{"minutes", "training time in minutes, instead of --steps", 0.01, 1e6, F::kLater, Kept::ByRanks});
    visit("Run", self.epochs,
          F{"epochs", "passes over the dataset, instead of --steps", 0.001, 1e6, F::kLater, Kept::ByRanks});
    visit("Run", self.threads, F{"threads", "CPU threads (default: all cores)", 1, 1024, F::kLater, Kept::ByProcess});
    visit("Run", self.steps, F{"steps,--max-iters", "number of optimizer steps", 1, 1e12});
    visit("Run", self.seed, F{"seed", "seed for weights, batches and dropout", 0, 1.8e19});
    visit("Run", self.fused,
          F{"fused", "use fused modules with hand-written backward passes, where available", 0, 0, F::kLater});
    visit("Run", self.recompute,
          F{"recompute", "activation checkpointing: keep the activations of one block at a time", 0, 0, F::kLater});
    visit("Run", self.dtype, F{"dtype", "type of matrix products; auto: the faster one on this machine", 0, 0});
    visit("Run", self.device, F{"device", "device that trains", 0, 0});
    visit("Batches", self.batch_size, F{"batch-size", "windows per batch", 1, 1e6});
    visit("Batches", self.window, F{"window", "tokens per training and validation window", 1, 1 << 24});
    visit("Batches", self.accumulation, F{"accumulation", "gradient accumulation: batches per step", 1, 1e6});
    visit("Batches", self.across_documents,
          F{"across-documents", "let windows span documents; mask: without attention between documents", 0, 0,
            F::kLater});
    visit("Batches", self.validation_fraction,
          F{"validation-fraction", "fraction of the text used for validation", 1e-9, 0.99});
    visit("Batches", self.test_fraction, F{"test-fraction", "fraction of the text held out for testing", 0, 0.99});
    visit("Mixture of experts", self.balance,
          F{"balance", "load balancing of experts, by an auxiliary loss or a selection bias", 0, 0, F::kLater});
    visit("Mixture of experts", self.balance_rate,
          F{"balance-rate", "factor of the auxiliary loss, or bias change per step; 0: off", 0, 1, F::kLater});
    visit("Mixture of experts", self.balance_loss,
          F{"balance-loss", "factor of an additional auxiliary loss of each sequence, as in DeepSeek-V3; 0: off", 0, 1,
            F::kLater});
    visit("Mixture of experts", self.shared_experts,
          F{"shared-experts", "number of experts that process every token, as wide as the others", 1, 1 << 10,
            F::kLater, Kept::ByRanks});
    visit("LoRA", self.lora_rank,
          F{"lora-rank", "rank of adapters to train instead of the weights of --init; 0: off", 0, core::kMaxAdapterRank,
            F::kLater});
    visit("LoRA", self.lora_alpha,
          F{"lora-alpha", "scale of the adapters' output, divided by the rank", 1e-3, 1e6, F::kLater});
    visit("LoRA", self.lora_targets,
          F{"lora-targets", "matrices with adapters: all, or a list of q,k,v,o,gate,up,down", 0, 0, F::kLater});
    visit("LoRA", self.lora_dropout,
          F{"lora-dropout", "dropout probability of the adapters' inputs", 0, 0.99, F::kLater});
    visit("Optimizer", self.optimizer,
          F{"optimizer", "optimizer of the blocks' matrices; adamw updates all other weights", 0, 0});
    visit("Optimizer", self.beta1, F{"beta1", "AdamW: decay rate of the first moment", 0, 0.999999});
    visit("Optimizer", self.beta2, F{"beta2", "AdamW: decay rate of the second moment", 0, 0.999999});
    visit("Optimizer", self.adam_eps, F{"adam-eps", "AdamW: epsilon", 1e-30, 1});
    visit("Optimizer", self.momentum, F{"momentum", "Muon: momentum", 0, 0.999999, F::kLater});
    visit("Optimizer", self.rank,
          F{"rank", "GaLore: rank, at most the smaller dimension of each matrix", 1, 1 << 20, F::kLater});
    visit("Optimizer", self.galore_every,
          F{"galore-every", "GaLore: steps between projection updates", 1, 1e12, F::kLater});
    visit("Optimizer", self.galore_scale,
          F{"galore-scale", "GaLore: factor of the updates, in addition to --lr", 0, 1e3, F::kLater});
    visit("Optimizer", self.weight_decay, F{"weight-decay", "decoupled weight decay", 0, 100});
    visit("Optimizer", self.decay_embeddings, F{"decay-embeddings", "apply weight decay to embeddings", 0, 0});
    visit("Optimizer", self.decay_norms, F{"decay-norms", "apply weight decay to norms", 0, 0});
    visit("Optimizer", self.clip, F{"clip", "maximum gradient norm; 0: off", 0, 1e9});
    visit("Optimizer", self.mtp_weight,
          F{"mtp-weight", "factor of the loss of --mtp's module in the total loss", 0, 100, F::kLater});
    visit("Optimizer", self.dropout, F{"dropout", "dropout probability", 0, 0.99});
    visit("Optimizer", self.ema,
          F{"ema", "decay of a moving average of the weights, which is evaluated and saved; 0: off", 0, 0.999999,
            F::kLater});
    visit("Schedule", self.schedule, F{"schedule", "learning rate after the warmup; wsd: stable, then decay", 0, 0});
    visit("Schedule", self.lr, F{"lr,--learning-rate", "peak learning rate", 0, 1e3});
    visit("Schedule", self.min_lr, F{"min-lr", "final learning rate", 0, 1e3});
    visit("Schedule", self.warmup_steps, F{"warmup-steps", "steps of linear warmup", 0, 1e12});
    visit("Schedule", self.decay_fraction,
          F{"decay-fraction", "wsd: fraction of the steps, at the end, in which the rate decays", 0, 1, F::kLater});
    visit("Evaluation", self.eval_every, F{"eval-every", "steps between evaluations", 1, 1e12});
    visit("Evaluation", self.eval_batches,
          F{"eval-batches", "random batches per split; 0: the whole validation split", 0, 1e6});
    visit("Evaluation", self.sample, F{"sample", "tokens to generate at each evaluation; 0: none", 0, 1e6, F::kLater});
    visit("Evaluation", self.patience,
          F{"patience", "evaluations without improvement before the run stops; 0: off", 0, 1e12, F::kLater});
    visit("Checkpoints and logging", self.checkpoint_every,
          F{"checkpoint-every", "steps between checkpoints", 1, 1e12});
    visit("Checkpoints and logging", self.exported, F{"export", "checkpoint to export as model.gguf", 0, 0, F::kLater});
    visit("Checkpoints and logging", self.log_every, F{"log-every", "steps between log lines", 1, 1e12});
    visit("Checkpoints and logging", self.log_style, F{"log-style", "format of log lines", 0, 0});
  }
};

/// Returns the names of the presets, the default first.
[[nodiscard]] std::vector<std::string> preset_names();

/// Returns a preset. Throws core::UsageError with the list of names if there is none with this name.
[[nodiscard]] TrainConfig preset(const std::string& name);

/// Facts about a run that validate() needs in addition to the configuration.
struct RunRequest {
  static bool none(const char*) { return false; }
  std::function<bool(const char* flag)> given = none;  ///< true if the flag is on the command line or in --config FILE
  std::function<bool(const char* flag)> typed = none;  ///< true if the flag is on the command line
  std::string text{}, conversations{};                 ///< path of the dataset's first file; the other is empty
  bool has_model = true;                               ///< the run starts from a model (--init) or is resumed
  bool learns_tokenizer = false;                       ///< the run trains a tokenizer on its dataset
};

/// Throws core::UsageError if the model's shape is invalid, or if settings of `config` and `request` cannot be combined
/// (combinations.cpp).
void validate(const TrainConfig& config, const RunRequest& request = {});

/// Returns the LoRA settings of a configuration with lora_rank > 0. The base model's name, `base`, is left empty.
[[nodiscard]] core::AdapterInfo adapter_info(const TrainConfig& config);

/// Converts a configuration to JSON as in trainer.json. Keys are flag names with underscores. config_from_json() reads
/// it. Keys added since the first version may be missing. Throws core::Error that names the file `where` if any other
/// key is missing, or for a value outside its flag's limits.
[[nodiscard]] nlohmann::ordered_json to_json(const TrainConfig& config);
[[nodiscard]] TrainConfig config_from_json(const nlohmann::json& json, const std::string& where);

/// Lists the values that differ between two objects with the same keys, such as "lr 0.001 -> 0.002"; empty if equal.
[[nodiscard]] std::string describe_difference(const nlohmann::ordered_json& from, const nlohmann::ordered_json& to);

/// Lists the differences between two configurations. Ignores settings that a resumed run may change: intervals of
/// evaluations and checkpoints, logging, samples, the exported checkpoint, and the device (which changes rounding).
[[nodiscard]] std::string describe_difference(const TrainConfig& from, const TrainConfig& to);

}  // namespace folio::train
