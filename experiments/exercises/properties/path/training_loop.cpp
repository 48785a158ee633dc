// Tests of the training loop: the order of its calls on a model with one parameter, and a bigram that learns a text.
#include <map>
#include <string_view>
#include <utility>

#include "experiments/exercises/path/path.h"
#include "experiments/exercises/properties/check.h"

namespace folio::exercises {
namespace {

// A model with one parameter w. The loss of step s's batch is (w - goal_s)².
class OneParameter final : public Trainee {
 public:
  explicit OneParameter(Doubles goals) : goals_(std::move(goals)) {}
  void take_batch(size_t step) override { goal_ = goals_.at(step); }
  double loss() override {
    at_ = w - goal_;
    return at_ * at_;
  }
  void clear_gradients() override { gradient_ = 0.0; }
  void backward() override { gradient_ += 2.0 * at_; }
  void descend(double rate) override { w -= rate * gradient_; }

  double w = 0.0;

 private:
  Doubles goals_;
  double goal_ = 0.0, at_ = 0.0, gradient_ = 0.0;
};

// Expects that train() returns exactly `expected`, without a tolerance, because float represents all values exactly.
void expect_losses(const Doubles& goals, const Doubles& rates, const Floats& expected, const std::string& why) {
  OneParameter model(goals);
  const Doubles losses = train(model, rates);
  if (losses.size() != expected.size()) {
    FAIL() << "There are " << losses.size() << " losses, but have to be " << expected.size()
           << ".\nEach of the rates is a step, and each step has one loss.";
  }
  expect_close({losses.begin(), losses.end()}, expected, 0.0, why);
}

TEST(TrainingLoop, TheLossIsThatBeforeTheStep) {
  expect_losses(
      {1.0}, {0.25}, {1.0F},
      "The parameter is 0, and the batch of the only step asks for 1: the loss is 1. 0.25 is the loss after the "
      "step.");
}

TEST(TrainingLoop, AStepGoesAgainstTheGradient) {
  OneParameter model({1.0});
  train(model, {0.25});
  expect_close(
      {static_cast<float>(model.w)}, {0.5F}, 0.0,
      "This is the parameter. It was 0, its gradient is -2, and the rate 0.25, so it becomes 0.5. At 0 it did not "
      "move: descend() comes after backward(), which finds the gradient, and clear_gradients() before both.");
}

TEST(TrainingLoop, EachStepHasItsOwnBatch) {
  expect_losses(
      {1.0, 2.0, 0.0}, {0.0, 0.0, 0.0}, {1.0F, 4.0F, 0.0F},
      "At a rate of 0 the parameter stays 0, and the three batches ask for 1, 2 and 0. 1, 1, 1 is the first batch "
      "in every step: take_batch(step) belongs into the loop.");
}

TEST(TrainingLoop, GradientsAreClearedInEachStep) {
  expect_losses(
      Doubles(4, 1.0), Doubles(4, 0.25), {1.0F, 0.25F, 0.0625F, 0.015625F},
      "Each step halves the distance to 1. It goes too far where the gradients of earlier steps are still there: "
      "backward() adds, so clear_gradients() comes before it in each step.");
}

TEST(TrainingLoop, EachStepHasItsOwnRate) {
  expect_losses(
      {1.0, 1.0, 1.0}, {0.5, 0.25, 0.25}, {1.0F, 0.0F, 0.0F},
      "At the rate 0.5 the first step goes all the way, and the next ones have nothing to do. 0.25 is what a fixed "
      "rate or that of another step gives: descend(rates[step]).");
}

// A bigram model in plain C++: row h of its table holds the logits of the character that follows h.
class Bigram final : public Trainee {
 public:
  explicit Bigram(std::string text) : text_(std::move(text)) {}
  void take_batch(size_t /*step*/) override {}  // every batch is the whole text
  double loss() override {
    double sum = 0.0;
    each([&](char h, char w) { sum -= std::log(share(h, w)); });
    return sum / static_cast<double>(text_.size() - 1);
  }
  void clear_gradients() override { gradient_.clear(); }
  void backward() override {
    each([&](char h, char w) {
      for (const char v : kVocabulary) gradient_[{h, v}] += (share(h, v) - (v == w ? 1.0 : 0.0)) / 6.0;
    });
  }
  void descend(double rate) override {
    for (const auto& [pair, g] : gradient_) table_[pair] -= rate * g;
  }

 private:
  static constexpr std::string_view kVocabulary = "ab";
  template <typename Visit>
  void each(Visit visit) {
    for (size_t i = 0; i + 1 < text_.size(); ++i) visit(text_[i], text_[i + 1]);
  }
  double share(char h, char w) {
    double sum = 0.0;
    for (const char v : kVocabulary) sum += std::exp(table_[{h, v}]);
    return std::exp(table_[{h, w}]) / sum;
  }

  std::string text_;
  std::map<std::pair<char, char>, double> table_, gradient_;
};

TEST(TrainingLoop, ABigramLearnsItsText) {
  // a is followed once by a and three times by b; b is followed twice by a.
  Bigram model("aababab");
  const Doubles losses = train(model, Doubles(300, 0.5));
  const double counted = (-std::log(1.0 / 4.0) - 3.0 * std::log(3.0 / 4.0)) / 6.0;
  ASSERT_EQ(losses.size(), 300U) << "There is a loss for each step.";
  EXPECT_NEAR(losses.front(), std::log(2.0), 1e-9) << "Two characters, and nothing is known: ln 2.";
  EXPECT_NEAR(losses.back(), counted, 0.02) << "After 300 steps a bigram knows nearly what the counts know. It does "
                                               "not if a call is missing or in the wrong place.";
}

}  // namespace
}  // namespace folio::exercises
