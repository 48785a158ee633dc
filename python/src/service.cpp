// Binds the server's API for Python, without a network. Requests and responses are the same as over HTTP.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "infer/server/local_service.h"
#include "src/module.h"

namespace folio::python {
namespace {

using infer::server::LocalReply;
using Reply = Owned<LocalReply>;

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// Calls look(reply) until its result is not empty or the reply ends. Each call must wait only briefly, since Ctrl-C,
// which aborts the request, is checked between the calls.
template <typename Look>
auto wait(const Reply& owned, Look look) {
  while (true) {
    LocalReply& reply = *owned;  // throws in a child that a Python signal handler has forked
    auto [found, ended] = [&] {
      const WithoutGil released;
      auto value = look(reply);
      return std::pair(std::move(value), reply.ended());
    }();
    if (ended || found != decltype(found){}) return std::move(found);
    if (PyErr_CheckSignals() != 0) {
      if (LocalReply* here = owned.here()) here->give_up();
      throw nb::python_error();
    }
  }
}

void serve(const Model& model, const std::string& given) {
  const Json o = Json::parse(given);
  infer::server::ServiceOptions options;
  options.api_key = o.value("api_key", "");
  options.allowed_hosts = o.value("allowed_hosts", std::vector<std::string>());
  options.allowed_origins = o.value("allowed_origins", std::vector<std::string>());
  options.max_queue = o.value("max_queue", options.max_queue);
  options.request_work = o.value("request_work", options.request_work);
  options.request_timeout = std::chrono::seconds(o.value("request_timeout", options.request_timeout.count()));
  options.log = o.value("log", false);
  options.log_texts = o.value("log_texts", false);
  SharedModel& shared = *model;
  const WithoutGil released;
  shared.serve(std::move(options));
}

std::unique_ptr<Reply> request(const Model& model, nb::handle method, nb::handle path, const nb::dict& headers,
                               const nb::bytes& body, std::optional<uint64_t> seed, const Notifier* notifier) {
  const auto header = [&](const char* name) {
    return headers.contains(name) ? utf8_of(headers[name], name) : std::string();
  };
  infer::server::HttpRequest r{.method = utf8_of(method, "method"),
                               .path = utf8_of(path, "path"),
                               .body = {body.c_str(), body.size()},
                               .host = header("host"),
                               .origin = header("origin"),
                               .content_type = header("content-type"),
                               .authorization = header("authorization"),
                               .random_seed = seed};
  std::shared_ptr<infer::Notifier> waker = notifier == nullptr ? nullptr : **notifier;
  auto reply = with_model(
      model, [&](const SharedModel::Use& use) { return use.service().request(std::move(r), std::move(waker)); });
  return std::make_unique<Reply>(std::move(reply));
}

}  // namespace

void bind_service(nb::module_& m) {
  nb::class_<Reply>(m, "Reply")
      .def("status",
           [](const Reply& r) { return wait(r, [](LocalReply& reply) { return reply.status(kBetweenSignals); }); })
      .def("poll_status", [](const Reply& r) { return r->status({}); })
      .def("headers",
           [](const Reply& r) {
             nb::list headers;
             for (const auto& [name, value] : r->headers()) {
               headers.append(nb::make_tuple(text_of(name), text_of(value)));
             }
             return headers;
           })
      .def("next",
           [](const Reply& r) {
             return bytes_of(wait(r, [](LocalReply& reply) { return reply.next(kBetweenSignals); }));
           })
      .def("poll", [](const Reply& r) { return bytes_of(r->next({})); })
      .def("give_up",
           [](const Reply& r) {
             if (LocalReply* here = r.here()) here->give_up();
           })
      .def_prop_ro("ended", [](const Reply& r) { return r->ended(); });
  m.def("serve", &serve);
  m.def("request", &request, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("seed").none() = nb::none(),
        nb::arg("notifier").none() = nb::none());
}

}  // namespace folio::python
