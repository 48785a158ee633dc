#include "train/run.h"

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "train/progress.h"
#include "train/run_log.h"
#include "train/schedule.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A step whose failure names the checkpoint to go back to.
StepResult guarded_step(Trainer& trainer, const fs::path& run) {
  try {
    return trainer.step();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    core::fail("LibTorch failed at step {}: {}; if memory is short, take a smaller --batch-size, --window or --dim",
               trainer.state().step + 1, message.substr(0, message.find('\n')));
  } catch (const core::Error& error) {
    const fs::path last = run / "checkpoints" / "last";
    core::fail("{}; {}", error.what(),
               fs::exists(last) ? "the last good checkpoint is " + fs::weakly_canonical(last).string()
                                : std::string("there is no checkpoint yet"));
  }
}

// Time spent in steps alone, without evaluations and checkpoints.
struct StepTimes {
  double seconds = 0.0;
  int64_t steps = 0;

  void add(double step_seconds) {
    seconds += step_seconds;
    ++steps;
  }
  [[nodiscard]] double steps_per_s() const { return static_cast<double>(steps) / seconds; }
};

}  // namespace

bool run_to_end(Trainer& trainer, const RunOptions& options) {
  const TrainConfig& c = trainer.config();
  RunLog log(options.run, trainer.state().step);
  Progress progress(trainer.state().step, c.steps, c.log_style);
  StepTimes since_log;
  StepTimes measured;  // for --minutes, without the first step, which warms up
  while (trainer.state().step < c.steps) {
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = guarded_step(trainer, options.run);
    const double seconds = seconds_since(start);
    since_log.add(seconds);
    const int64_t step = trainer.state().step;

    if (options.minutes > 0.0 && step > 1 && step <= kMeasuredSteps) measured.add(seconds);
    if (options.minutes > 0.0 && step == kMeasuredSteps) {
      trainer.set_total_steps(static_cast<int64_t>(options.minutes * 60.0 * measured.steps_per_s()));
      progress.set_last_step(c.steps);
      progress.say(fmt::format("{:g} minutes are {} steps of {:.1f} ms", options.minutes, c.steps,
                               1e3 / measured.steps_per_s()));
    }

    const bool last = step == c.steps;
    const bool interrupted = options.interrupted && options.interrupted();
    const bool evaluates = last || step % c.eval_every == 0;
    bool best = false;
    if (evaluates || step % c.log_every == 0) {
      LogEntry entry{.step = step,
                     .tokens = step * trainer.tokens_per_step(),
                     .loss = result.loss,
                     .lr = learning_rate(c, step - 1),
                     .grad_norm = result.grad_norm,
                     .tokens_per_s = since_log.steps_per_s() * static_cast<double>(trainer.tokens_per_step()),
                     .train_loss = {},
                     .val_loss = {}};
      since_log = {};
      if (evaluates) {
        const Trainer::Evaluation evaluation = trainer.evaluate();
        entry.train_loss = evaluation.train;
        entry.val_loss = evaluation.validation;
        best = trainer.note_validation_loss(evaluation.validation);
      }
      log.append(entry);
      progress.show(entry);
    }
    if (last || interrupted || best || step % c.checkpoint_every == 0) {
      trainer.save(options.run);
      log.draw(options.baseline);
    }
    if (interrupted && !last) {
      progress.say(fmt::format("interrupted at step {}: the checkpoint is saved, go on with --resume", step));
      return false;
    }
  }
  return true;
}

}  // namespace folio::train
