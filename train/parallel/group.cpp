#include "train/parallel/group.h"

#include <ATen/record_function.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "train/parallel/launch.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

int64_t bytes_of(const Tensor& t) { return static_cast<int64_t>(t.nbytes()); }

// Calls c10d and converts its errors to RankLost. c10d has no error types, so timeouts are recognized by the message.
template <typename Call>
auto rethrow_as_rank_lost(const std::string& what, Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    const std::string why = error.what();
    const bool late = why.find("imed out") != std::string::npos || why.find("imeout") != std::string::npos;
    throw RankLost(fmt::format("{}: {} ({})", what,
                               late ? "a rank did not respond in time" : "the connection to a rank was lost",
                               core::printable(first_line(error), 160)));
  }
}

// Returns a view of a tensor as bytes, [rows, bytes per row], for transfers of any type; as_bytes() returns [1, bytes].
Tensor rows_of_bytes(const Tensor& t) { return (t.dim() == 1 ? t.unsqueeze(1) : t.flatten(1)).view(torch::kByte); }
Tensor as_bytes(const Tensor& t) { return rows_of_bytes(t.reshape({1, -1})); }

// Returns how often a rank sends in Gloo's broadcast over a binomial tree of n ranks. `place` is the rank's index in
// the group relative to the root's, modulo n.
int64_t sends_of_broadcast(int64_t place, int64_t n) {
  int64_t top = 1, sends = 0;
  while (top < n) top *= 2;
  // A rank sends to place + bit, if that is less than n, for each power of two `bit` below the lowest set bit of
  // `place`; the root (place 0), for each power of two.
  for (int64_t bit = place == 0 ? top / 2 : (place & -place) / 2; bit > 0; bit /= 2) sends += place + bit < n ? 1 : 0;
  return sends;
}

}  // namespace

Group::Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
             std::chrono::milliseconds timeout)
    : name_(std::move(name)), ranks_(std::move(ranks)) {
  index_ = std::ranges::find(ranks_, rank) - ranks_.begin();
  if (size() == 1) return;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(name_, store);
  const auto key = [](int64_t r) { return fmt::format("here {}", r); };
  put(*own, key(rank), "");
  if (const auto missing = missing_keys(*own, ranks_, key, timeout); !missing.empty()) {
    throw RankLost(fmt::format("{}: rank {} did not connect within {} s", name_, fmt::join(missing, ", "),
                               static_cast<double>(timeout.count()) / 1000.0));
  }
  group_ = rethrow_as_rank_lost(name_ + ", connect", [&] { return connect(own, index_, size(), timeout); });
}

Group::~Group() = default;

Pending Group::begin(const char* what, int64_t bytes, Tensors tensors, const Call& call) {
  const std::string where = fmt::format("{}, {}", name_, what);
  bytes_sent_ += bytes;
  const auto work = rethrow_as_rank_lost(where, [&] { return call(tensors); });
  return Pending([work, where, tensors = std::move(tensors)] {
    RECORD_FUNCTION("folio::wait", {});
    rethrow_as_rank_lost(where, [&] { work->wait(); });
  });
}

void Group::in_place(const char* what, int64_t bytes, Tensor t, const Call& call) {
  if (size() == 1) return;
  const Tensor whole = t.detach().contiguous();
  begin(what, bytes, {whole}, call).wait();
  if (!whole.is_alias_of(t)) t.detach().copy_(whole);
}

void Group::sum(Tensor t) {
  in_place("all-reduce", bytes_of_sum(bytes_of(t)), t, [&](Tensors& all) { return group_->allreduce(all); });
}

double Group::sum(double value) {
  const Tensor t = torch::full({1}, value, torch::kDouble);
  sum(t);
  return t.item<double>();
}

double Group::largest(double value) {
  const Tensor t = torch::full({1}, value, torch::kDouble);
  in_place("all-reduce of maximum", bytes_of_sum(bytes_of(t)), t,
           [&](Tensors& all) { return group_->allreduce(all, {.reduceOp = c10d::ReduceOp::MAX}); });
  return t.item<double>();
}

void Group::sum_at(Tensor t, int64_t index) {
  // Gloo runs a ring reduce-scatter; then each other rank sends its part to rank `index`.
  const int64_t parts = size() - 1 + (index_ == index ? 0 : 1);
  in_place("reduce", bytes_of(t) * parts / size(), t,
           [&](Tensors& all) { return group_->reduce(all, {.rootRank = index}); });
}

void Group::broadcast(Tensor t, int64_t index) {
  const int64_t place = (index_ - index + size()) % size();
  in_place("broadcast", bytes_of(t) * sends_of_broadcast(place, size()), t, [&](const Tensors& all) {
    Tensors bytes{as_bytes(all.front())};
    return group_->broadcast(bytes, {.rootRank = index});
  });
}

Tensor Group::gather(const Tensor& t, int64_t dim) {
  if (size() == 1) return t.detach();
  const Tensor own = t.detach().contiguous();
  std::vector<int64_t> shape{size()};
  shape.insert(shape.end(), own.sizes().begin(), own.sizes().end());
  Tensor all = torch::empty(shape, own.options());
  // Call the backend directly: ProcessGroup's method was renamed between LibTorch versions.
  begin("all-gather", bytes_of(own) * (size() - 1), {as_bytes(all).flatten(), as_bytes(own).flatten()},
        [&](Tensors& t) { return group_->getBackend(own.device().type())->_allgather_base(t[0], t[1]); })
      .wait();
  return dim == 0 ? all.flatten(0, 1) : torch::cat(all.unbind(0), dim);
}

Tensor Group::sum_scatter(const Tensor& t, int64_t dim) {
  if (size() == 1) return t.detach();
  // Exchange the parts and sum them here, since Gloo's own reduce-scatter sends as many bytes as an all-reduce.
  const std::vector<int64_t> one_each(ranks_.size(), 1);
  const Tensor got = exchange(torch::stack(t.detach().chunk(size(), dim)), one_each, one_each);
  Tensor sum = got[0].clone();
  for (int64_t i = 1; i < size(); ++i) sum += got[i];
  return sum;
}

Tensor Group::exchange(const Tensor& t, const std::vector<int64_t>& sent, const std::vector<int64_t>& received) {
  if (size() == 1) return t.detach();
  const Tensor own = t.detach().contiguous();
  const int64_t out = std::accumulate(sent.begin(), sent.end(), int64_t{0});
  std::vector<int64_t> shape = own.sizes().vec();
  shape[0] = std::accumulate(received.begin(), received.end(), int64_t{0});
  const Tensor all = torch::empty(shape, own.options());
  const int64_t row_bytes = out == 0 ? 0 : bytes_of(own) / out;
  std::vector<int64_t> counts_in = received, counts_out = sent;
  begin("all-to-all", (out - sent[static_cast<size_t>(index_)]) * row_bytes, {rows_of_bytes(all), rows_of_bytes(own)},
        [&](Tensors& t) {
          return group_->getBackend(own.device().type())->alltoall_base(t[0], t[1], counts_in, counts_out);
        })
      .wait();
  return all;
}

Pending Group::send(const Tensor& t, int64_t index, int tag) {
  return begin("send", bytes_of(t), {t.detach()},
               [&](Tensors& all) { return group_->send(all, static_cast<int>(index), tag); });
}

Pending Group::receive(Tensor t, int64_t index, int tag) {
  return begin("receive", 0, {t.detach()},
               [&](Tensors& all) { return group_->recv(all, static_cast<int>(index), tag); });
}

void Group::meet() {
  if (size() > 1) begin("barrier", 0, {}, [&](Tensors&) { return group_->barrier(); }).wait();
}

}  // namespace folio::train::parallel
