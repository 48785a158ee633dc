// Tests infer/engine/text_stream.h: a stream delivers its complete outputs no matter when they are read, notifies
// waiting readers, and ends its requests when it is destroyed.
#include "infer/engine/text_stream.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <utility>

#include "tests/infer/engine/gate.h"

namespace folio::infer {
namespace {

using namespace std::chrono_literals;

constexpr auto kHang = 120s;  // timeout, so that a hanging test fails

class TextStreamTest : public test::LetterEngine {
 protected:
  [[nodiscard]] std::shared_ptr<TextStream> submit(std::vector<Request> requests, bool pieces = true,
                                                   EventQueueOptions options = {}) {
    return TextStream::submit(async_, std::move(requests), pieces, std::move(options));
  }
  static bool readable(const Notifier& notifier, std::chrono::milliseconds at_most) {
    pollfd one{.fd = notifier.fd(), .events = POLLIN, .revents = 0};
    return poll(&one, 1, static_cast<int>(at_most.count())) == 1;
  }
  void TearDown() override { gate_->open(); }

  std::shared_ptr<AsyncEngine> async_ = std::make_shared<AsyncEngine>(engine_);
  std::shared_ptr<test::Gate> gate_ = test::Gate::after_steps_of(*async_);
};

TEST_F(TextStreamTest, PiecesJoinToTheTextsOfTheChoices) {
  const auto stream = submit({request(1), request(2, 3), request(3)});
  auto expected = alone(request(1));
  for (const auto& more : {alone(request(2, 3)), alone(request(3))}) {
    expected.insert(expected.end(), more.begin(), more.end());
  }
  EXPECT_EQ(read(*stream, 5), expected);
  const auto results = stream->take_results();
  ASSERT_EQ(results.size(), 5U);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(results[i].text, expected[i]);
}

TEST_F(TextStreamTest, ReturnsOnlyResultsWithoutPieces) {
  const auto stream = submit({request(1), request(4)}, false);
  while (!stream->ended()) EXPECT_TRUE(stream->next(1s).empty());
  EXPECT_EQ(stream->take_results()[1].text, alone(request(4))[0]);
}

TEST_F(TextStreamTest, LateReadsReturnOnePiece) {
  const auto late = submit({request(1)});
  static_cast<void>(read(*submit({request(8)})));  // runs at the same time as `late` and ends after it
  static_cast<void>(read(*submit({request(8)})));
  const auto pieces = late->next(1s);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].text, alone(request(1))[0]);
  EXPECT_EQ(pieces[0].tokens.size(), late->take_results()[0].tokens.size());
  EXPECT_TRUE(pieces[0].ended);
  EXPECT_TRUE(late->ended());
}

// The stream `late` is read only after the other stream has ended.
TEST_F(TextStreamTest, UnreadStreamsPauseAndOthersContinue) {
  const auto late = submit({request(1), request(8)}, true, {.limit = 10});
  EXPECT_EQ(read(*submit({request(2)})), alone(request(2)));
  while (async_->statistics().paused < 2) std::this_thread::yield();
  EXPECT_EQ(read(*late, 2), (std::vector{alone(request(1))[0], alone(request(8))[0]}));
}

TEST_F(TextStreamTest, NotifierIsReadableAfterDelivery) {
  const auto notifier = std::make_shared<Notifier>();
  EXPECT_FALSE(readable(*notifier, 0ms));
  const auto stream = submit({request(1)}, true, {.on_delivery = [notifier] { notifier->notify(); }});
  std::string text;
  while (!stream->ended()) {
    ASSERT_TRUE(readable(*notifier, kHang));
    notifier->clear();
    for (const TextPiece& piece : stream->next(0ms)) text += piece.text;
  }
  EXPECT_EQ(text, alone(request(1))[0]);
}

TEST_F(TextStreamTest, ErrorsAreThrownOnceAndEndTheOthers) {
  Request bad = request(1);
  bad.prompt = {37};
  const auto stream = submit({request(2), bad, request(3)}, false);
  const auto wait = [&] {
    while (!stream->ended()) static_cast<void>(stream->next(1s));
  };
  EXPECT_ERROR(wait(), "outside the vocabulary");
  wait();
  EXPECT_EQ(read(*submit({request(2)})), alone(request(2)));
}

TEST_F(TextStreamTest, CancelledAndDroppedStreamsEnd) {
  std::vector<Request> many(40, request(8));
  gate_->close();
  const auto stream = submit(many);
  gate_->await_thread();  // waits until the engine's thread is blocked after a step
  stream->cancel();
  gate_->open();
  while (!stream->ended()) static_cast<void>(stream->next(1s));
  EXPECT_EQ(stream->take_results().back().finish_reason, FinishReason::Interrupted);
  submit(many).reset();
  static_cast<void>(read(*submit({request(1)})));
  while (async_->statistics().running + async_->statistics().waiting > 0) std::this_thread::yield();
  EXPECT_EQ(async_->statistics().blocks_in_use, 0);
}

TEST_F(TextStreamTest, StoppingEndsStreamsAndRejectsNewOnes) {
  const auto stream = submit(std::vector<Request>(40, request(8)));
  async_->stop();
  while (!stream->ended()) static_cast<void>(stream->next(1s));
  const auto later = submit({request(1)});
  EXPECT_ERROR(later->next(kHang), "the engine was stopped");
  EXPECT_TRUE(later->ended());
}

TEST_F(TextStreamTest, StopsDuringConcurrentSubmissions) {
  std::vector<std::thread> threads;
  std::atomic<int> n_ended = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      try {
        const auto stream = submit(std::vector<Request>(3000, request(8)), t % 2 == 0);
        while (!stream->ended()) stream->next(20ms);
        EXPECT_EQ(stream->take_results().size(), 3000U);
      } catch (const core::Error& error) {
        EXPECT_STREQ(error.what(), "the engine was stopped");
      }
      ++n_ended;
    });
  }
  while (async_->statistics().running == 0 && n_ended == 0) std::this_thread::yield();
  async_->stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_ended, 4);
}

}  // namespace
}  // namespace folio::infer
