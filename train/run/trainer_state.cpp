#include "train/run/trainer_state.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;  // version of the checkpoint format

// Calls visit(key, field) for each field of trainer.json's "environment". visit_state() visits the top-level fields.
template <typename Self, typename Visitor>
void visit_environment(Self& self, Visitor&& visit) {
  visit("folio", self.folio);
  visit("libtorch", self.libtorch);
  visit("cpu", self.cpu);
  visit("threads", self.threads);
}

template <typename Self, typename Visitor>
void visit_state(Self& self, Visitor&& visit) {
  visit("step", self.step);
  visit("corpus", self.source.name);
  visit("corpus_path", self.source.path);
  visit("corpus_field", self.source.field);
  visit("corpus_bytes", self.source.bytes);
  visit("corpus_digest", self.source.digest);
  visit("corpus_eval", self.source.eval_path);
  visit("base", self.base);
  visit("base_digest", self.base_digest);
  visit("best_validation_loss", self.best_validation_loss);
  visit("best_step", self.best_step);
  visit("evaluations_since_best", self.evaluations_since_best);
  visit("minutes", self.config.minutes);
  visit("spent_seconds", self.spent_seconds);
  visit("measured_seconds", self.measured_seconds);
  visit("measured_steps", self.measured_steps);
  visit("measures_until", self.measures_until);
}

// Returns a visitor that sets each field from its key in `json`. For a missing or invalid key, the visitor throws
// core::Error that names `where`, the file.
auto reader(const nlohmann::json& json, const std::string& where) {
  return [&json, where](const char* key, auto& value) {
    // Keys that checkpoints of older versions lack.
    static const std::set<std::string_view> kNewer{"corpus_eval", "corpus_field", "evaluations_since_best",
                                                   "measures_until", "spent_seconds"};
    if (!json.contains(key) && kNewer.contains(key)) return;
    value = core::json_get<std::decay_t<decltype(value)>>(json, key, where);
  };
}

nlohmann::ordered_json to_json(const Environment& environment) {
  nlohmann::ordered_json json;
  visit_environment(environment, [&](const char* key, const auto& value) { json[key] = value; });
  return json;
}

}  // namespace

void write_trainer_state(const fs::path& checkpoint, const TrainerState& state) {
  nlohmann::ordered_json json = {{"version", kVersion}};
  visit_state(state, [&](const char* key, const auto& value) { json[key] = value; });
  json["environment"] = to_json(state.environment);
  json["config"] = to_json(state.config);
  core::write_file_atomically(checkpoint / "trainer.json", json.dump(2) + "\n");
}

TrainerState read_trainer_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "trainer.json";
  const std::string where = path.string();
  const nlohmann::json json = core::parse_json(core::read_text_file(path, size_t{16} << 20U), where);
  const auto version = core::json_get<int64_t>(json, "version", where);
  core::require(version == kVersion, "{}: the checkpoint has version {}, expected {}; train anew", where, version,
                kVersion);
  TrainerState state;
  const auto environment = core::json_get<nlohmann::json>(json, "environment", where);
  visit_environment(state.environment, reader(environment, where + ": environment"));
  const int64_t threads = state.environment.threads;
  core::require(threads >= 1 && threads <= 1024, "{}: environment: \"threads\" is {}, expected 1 to 1024; correct it",
                where, threads);
  state.config = config_from_json(core::json_get<nlohmann::json>(json, "config", where), where + ": config");
  visit_state(state, reader(json, where));
  return state;
}

std::string describe_difference(const Environment& from, const Environment& to) {
  return describe_difference(to_json(from), to_json(to));
}

}  // namespace folio::train
