// Study: which parts of a model does each of two processes store in training, and how many bytes do they exchange? The
// results are explained in README.md.
#include <fmt/format.h>

#include <cmath>

#include "experiments/27_ranks/ranks_picture.h"
#include "experiments/27_ranks/two_ranks.h"
#include "experiments/common/ranks.h"
#include "experiments/common/report.h"
#include "train/parallel/costs.h"

namespace {

using namespace folio;  // NOLINT: a program, never included by another file
using experiments::Division;
using experiments::RankRecord;
using experiments::Report;

double kilobytes(auto bytes) { return static_cast<double>(bytes) / 1e3; }

std::string both(const std::vector<RankRecord>& ranks, int64_t RankRecord::*field) {
  return fmt::format("{:.1f}, {:.1f}", kilobytes(ranks[0].*field), kilobytes(ranks[1].*field));
}

void study(Report& report) {
  const int64_t steps = report.short_form() ? 3 : 20;
  experiments::run_ranks(2, {std::to_string(report.seed()), std::to_string(steps), report.directory().string()});
  const auto records = experiments::read_records(report.directory());
  const std::vector<Division> divisions = experiments::divisions();
  const std::array<std::vector<double>, 2> alone = {
      experiments::train_alone(experiments::ranks_config(false, report.seed(), steps)),
      experiments::train_alone(experiments::ranks_config(true, report.seed(), steps))};

  report.value("loss of one process", alone[0].back());
  report.value("loss of one process, with experts", alone[1].back());

  Report::Rows held, sent;
  std::vector<std::string> names;
  for (size_t i = 0; i < divisions.size(); ++i) {
    const Division& division = divisions[i];
    const std::vector<RankRecord>& ranks = records[i];
    const std::vector<double>& expected = alone[division.of_experts ? 1 : 0];
    names.push_back(division.name);
    double off = 0.0;
    for (const RankRecord& rank : ranks) {
      for (size_t step = 0; step < expected.size(); ++step) {
        off = experiments::larger(off, std::abs(rank.losses.at(step) - expected[step]));
      }
    }
    train::TrainConfig config = experiments::ranks_config(division.of_experts, report.seed(), steps);
    config.model.vocab_size = ranks.front().parts.front().shape.front();  // the embedding's
    config.mesh.zero = division.zero;
    double parameters = 0.0, bytes = 0.0;
    std::string what;
    for (const int64_t rank : {0, 1}) {
      const auto costs = train::parallel::costs_of(config, train::parallel::Mesh(division.mesh, rank));
      parameters += costs.parameters;
      bytes += costs.bytes_sent();
      if (rank > 0) continue;
      for (const auto& part : costs.sent) what += (what.empty() ? "" : ", ") + part.what;
    }
    held.push_back({division.name, both(ranks, &RankRecord::parameters), both(ranks, &RankRecord::gradients),
                    both(ranks, &RankRecord::moments), ranks[0].losses.back(), fmt::format("{:.1e}", off)});
    sent.push_back({division.name, what, fmt::format("{:.1f}", kilobytes(bytes)),
                    fmt::format("{:.1f}", kilobytes(ranks[0].sent + ranks[1].sent))});
    report.check_below(division.name + ": largest distance of a loss from one process's", off, 1e-5);
    if (division.zero < 3) {
      report.check_equal(division.name + ": bytes of parameters at both ranks, by the formula",
                         ranks[0].parameters + ranks[1].parameters, std::llround(parameters));
    }
    if (!division.of_experts && division.zero < 3) {
      report.check_below(division.name + ": bytes sent in a step, distance from the formula's, as a share",
                         std::abs(static_cast<double>(ranks[0].sent + ranks[1].sent) - bytes) / bytes, 0.01);
    }
  }
  report.table(fmt::format("What ranks 0 and 1 hold after {} steps, in KB, and the loss", steps),
               {"", "parameters", "gradients", "moments", "loss", "largest distance from one process's"}, held);
  report.table("What they send in a step, both together, in KB", {"", "what", "by formula", "measured"}, sent);

  const auto& data = records[0];
  report.picture("held.svg", experiments::held_picture(data[0], {{"data, context: weights", &records[0]},
                                                                 {"--zero 1, 2, 3: moments", &records[1], true},
                                                                 {"--zero 3: weights", &records[3]},
                                                                 {"tensor: weights", &records[4]},
                                                                 {"pipeline: weights", &records[6]}}));
  report.picture("bytes.svg", experiments::bytes_picture(names, records));
}

}  // namespace

int main(int argc, char** argv) {
  const auto as_rank = [](const auto& launch, const auto& arguments) {
    experiments::train_as_rank(launch, std::stoull(arguments.at(0)), std::stoll(arguments.at(1)), arguments.at(2));
  };
  if (const auto code = experiments::run_as_rank(argc, argv, as_rank)) return *code;
  return experiments::run(argc, argv, "27_ranks", study);
}
