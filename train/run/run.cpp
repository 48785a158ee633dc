#include "train/run/run.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/seconds_since.h"
#include "train/report/matrix_peak.h"
#include "train/report/progress.h"
#include "train/report/run_log.h"
#include "train/step/step_threads.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

StepResult guarded_step(Trainer& trainer) {
  try {
    return trainer.step();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    core::fail("LibTorch failed at step {}: {}; if memory is short, reduce --batch-size, --window or --dim",
               trainer.state().step + 1, message.substr(0, message.find('\n')));
  }
}

// Evaluates a run, logs it, prints its progress and saves it. All ranks call it, because evaluations and checkpoints
// are collective; only rank 0 logs and prints.
class Reports {
 public:
  Reports(Trainer& trainer, const RunOptions& options)
      : trainer_(trainer), options_(options), logged_step_(trainer.state().step), peak_(options.peak) {
    if (!trainer.world().is_first()) return;
    log_.emplace(options.run, logged_step_);
    if (logged_step_ > 0)
      log_->draw(options.baseline, options.baseline_name);  // redrawn, as a killed run may have left an old chart
    progress.emplace(logged_step_, trainer.config().steps, trainer.config().log_style);
  }

  /// Logs the last step and `seconds`, the time of all steps since the last entry. If `evaluates` is true, evaluates
  /// the model, too. Returns true if the validation loss is the best so far.
  bool entry(const StepResult& result, double seconds, bool evaluates) {
    const TrainConfig& c = trainer_.config();
    LogEntry entry;
    entry.step = trainer_.state().step;
    entry.tokens = entry.step * trainer_.tokens_per_step();
    entry.loss = result.loss;
    entry.mtp_loss = result.mtp_loss;
    entry.lr = result.lr;
    entry.grad_norm = result.grad_norm;
    entry.tokens_per_s =
        static_cast<double>((entry.step - std::exchange(logged_step_, entry.step)) * trainer_.tokens_per_step()) /
        seconds;
    if (log_ && peak_ > 0.0) {
      const double rate = entry.tokens_per_s * operations_per_token(c.model, c.window, c.lora_rank > 0);
      // A rate above the peak means that other programs slowed the measurement of the peak.
      if (rate > peak_) peak_ = std::max(rate, options_.measure_peak());
      entry.peak_share = rate / peak_;
    }
    bool best = false;
    if (evaluates) {
      const Trainer::Evaluation evaluation = trainer_.evaluate();
      entry.train_loss = evaluation.train;
      entry.val_loss = evaluation.validation;
      entry.expert_load = evaluation.expert_load;
      if (c.sample > 0) entry.sample = trainer_.sample();
      best = trainer_.note_validation_loss(evaluation.validation);
    }
    if (log_) log_->append(entry);
    if (progress) progress->show(entry);
    return best;
  }

  void save() {
    if (log_) log_->sync();
    trainer_.save(options_.run);
    if (log_) log_->draw(options_.baseline, options_.baseline_name);
  }

  std::optional<Progress> progress;  ///< unset on ranks other than 0, like the log

 private:
  Trainer& trainer_;
  const RunOptions& options_;
  std::optional<RunLog> log_;
  int64_t logged_step_;
  double peak_;
};

bool run_steps(Trainer& trainer, const RunOptions& options) {
  const TrainConfig& c = trainer.config();
  if (trainer.state().step == 0) trainer.save(options.run);
  Reports reports(trainer, options);
  const auto note = [&](bool in_step) {
    if (options.note) options.note(trainer.state().step, in_step);
  };
  StepThreads threads(at::get_num_threads(), [&](int n) { return trainer.repeats_with(n); });
  double seconds_since_log = 0.0;                    // time of steps, without evaluations and checkpoints
  auto last_end = std::chrono::steady_clock::now();  // end of the previous step
  while (trainer.state().step < c.steps && !trainer.out_of_patience()) {
    const auto start = std::chrono::steady_clock::now();
    note(true);
    const StepResult result = guarded_step(trainer);
    note(false);
    seconds_since_log += core::seconds_since(start);
    threads.watch();
    const int64_t step = trainer.state().step;

    const auto end = std::chrono::steady_clock::now();
    const std::optional<double> measured =
        trainer.measure(std::chrono::duration<double>(end - std::exchange(last_end, end)).count());
    if (measured && reports.progress) {
      reports.progress->set_last_step(c.steps);
      reports.progress->print(fmt::format("{:g} minutes: {} steps of {:.1f} ms", c.minutes, c.steps, 1e3 * *measured));
    }

    const bool here = options.interrupted && options.interrupted();
    const bool interrupted = trainer.world().largest(here ? 1.0 : 0.0) > 0.0;
    const bool evaluates = step == c.steps || step % c.eval_every == 0;
    const bool best = (evaluates || step % c.log_every == 0) &&
                      reports.entry(result, std::exchange(seconds_since_log, 0.0), evaluates);
    const bool last = step == c.steps || trainer.out_of_patience();
    if (last || interrupted || best || measured || step % c.checkpoint_every == 0) reports.save();
    if (interrupted && !last) {
      if (reports.progress)
        reports.progress->print(fmt::format("interrupted at step {}: checkpoint saved, continue with --resume", step));
      return false;
    }
  }
  return true;
}

}  // namespace

void naming_checkpoint(const fs::path& run, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    throw;  // main() prints a message for std::bad_alloc
  } catch (const std::exception& error) {
    const std::string what = error.what();
    std::error_code ignored;
    const fs::path last = fs::canonical(run / "checkpoints" / "last", ignored);
    const char* next = dynamic_cast<const Diverged*>(&error) != nullptr
                           ? "but --resume would repeat the step, so start a new run"
                           : "continue with --resume";
    core::fail("{}; {}", what.substr(0, what.find('\n')),
               last.empty() ? "no checkpoint was saved yet"
                            : fmt::format("the last good checkpoint is {}, {}", last.string(), next));
  }
}

bool run_to_end(Trainer& trainer, const RunOptions& options) {
  bool finished = false;
  naming_checkpoint(options.run, [&] {
    try {
      finished = run_steps(trainer, options);
    } catch (const Diverged&) {
      throw;  // all ranks have the same loss
    } catch (const std::exception& error) {
      if (!options.explain) throw;
      core::fail("{}", options.explain(error));
    }
  });
  return finished;
}

}  // namespace folio::train
