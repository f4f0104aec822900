// Store: keys and values.
#include <icecore/v1/icecore.pb.h>

#include <fmt/format.h>

#include <algorithm>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/calls/streams.hpp"
#include "doors/grpc/calls/watches.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

using service::right;

constexpr int keys_max = 65'536;
constexpr int keys_at_once = 64;  ///< so many finds gRPC's own thread does
constexpr std::uint64_t rows_max = 10'000;

/// Of values that are read by one call.
std::uint64_t answer_bytes_max(const grpc_call& c) {
  const service::limits& limits = c.door().all.options().limits;
  return std::min<std::uint64_t>(std::max(limits.output_bytes, limits.request_bytes), message_bytes_max);
}

void fill_found(grpc_call& c, v1::GetResponse& response, const std::optional<service::found>& found) {
  response.set_found(found.has_value());
  if (!found) return;
  if (found->value().size() > message_bytes_max) {
    throw error(errc::limit_reached, fmt::format("the value has {} bytes, more than a message of gRPC can have (2 GiB)",
                                                 found->value().size()));
  }
  c.hold(found->value().size());
  response.set_value(found->value().data(), found->value().size());
  response.set_version(found->version());
}

/// Which rights a list of operations needs: nothing is read or written before all are there.
void require(const grpc_call& c, const service::database_settings& settings,
             const std::vector<service::operation>& list) {
  using kind = service::operation::kind;
  for (const service::operation& o : list) {
    const auto need = [&](right what) {
      if (o.names_range()) {
        c.require(settings, bounds_from(o.key, o.end), what);
      } else {
        c.require(settings, o.key, what);
      }
    };
    if (o.writes()) need(right::write);
    if (!o.writes() || o.previous || o.what == kind::increment) need(right::read);
  }
}

void require(const grpc_call& c, const service::database_settings& settings, const service::transaction& what) {
  for (const service::condition& condition : what.conditions) c.require(settings, condition.key, right::read);
  require(c, settings, what.then);
  require(c, settings, what.otherwise);
}

void limit_reads(std::vector<service::operation>& list) {
  for (service::operation& o : list) {
    if (o.what == service::operation::kind::get_range && (o.limit == 0 || o.limit > rows_max)) o.limit = rows_max;
  }
}

/// errc::not_owner if a key is another server's. Ranges mean what this server has of them.
void require_owner(const grpc_call& c, const service::transaction& what) {
  const service::service& all = c.door().all;
  for (const service::condition& condition : what.conditions) all.require_owner(condition.key);
  for (const auto* const list : {&what.then, &what.otherwise}) {
    for (const service::operation& o : *list) {
      if (!o.names_range()) all.require_owner(o.key);
    }
  }
}

/// Gives the transaction to the database. `answer` fills the response from the outcome, on any thread; the call ends.
template <typename Answer>
void give(unary_call& c, service::database& database, service::transaction what, Answer answer) {
  if (c.is_cancelled()) return c.fail(cancelled_by_client());
  database.write(std::move(what), [&c, answer = std::move(answer)](service::result<service::outcome> done) {
    if (const auto* const failed = std::get_if<service::failure>(&done)) return c.fail(*failed);
    c.attempt([&](unary_call&) {
      auto& outcome = std::get<service::outcome>(done);
      if (outcome.held) c.hold(std::move(*outcome.held));
      answer(outcome);
      c.succeed();
    });
  });
}

/// The same, wherever it may wait, with the caller's rights.
template <typename Answer>
void hand_over(unary_call& c, const std::string& name, service::transaction what, Answer answer) {
  std::shared_ptr<service::database> database = c.find(name);
  if (!c.who().is_root()) require(c, database->settings(), what);
  require_owner(c, what);
  c.hold(what.bytes());
  what.allowed = {.read_bytes_max = answer_bytes_max(c), .memory = &c.door().all.in_flight_bytes()};
  if (database->queues_writes()) return give(c, *database, std::move(what), std::move(answer));
  auto waits = std::make_shared<service::transaction>(std::move(what));
  c.door().work.post([&c, database = std::move(database), waits, answer = std::move(answer)] {
    give(c, *database, std::move(*waits), answer);
  });
}

class store_calls final : public served_service {
 public:
  explicit store_calls(door_parts& door) : served_service(door, "icecore.v1.Store") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Get", &store_calls::get);
    wait_for_unary(*this, queue, "GetMany", &store_calls::get_many);
    wait_for_unary(*this, queue, "Put", &store_calls::put);
    wait_for_unary(*this, queue, "Remove", &store_calls::remove);
    wait_for_unary(*this, queue, "Write", &store_calls::write);
    wait_for<rows_from_client>(queue, "Load");
    wait_for_unary(*this, queue, "Count", &store_calls::count);
    wait_for_answers(*this, queue, "Scan", &store_calls::scan);
    wait_for_answers(*this, queue, "History", &store_calls::history);
    wait_for_answers(*this, queue, "Diff", &store_calls::diff);
    wait_for_answers(*this, queue, "Changes", &store_calls::changes);
    wait_for_answers(*this, queue, "Watch", &store_calls::watch);
  }

 private:
  void get(unary_call& its, const v1::GetRequest* request, v1::GetResponse* response) {
    answer_direct(its, *request, [=, this](unary_call& c) {
      const auto database = c.find(request->database());
      if (!c.who().is_root()) c.require(database->settings(), request->key(), right::read);
      door_.all.require_owner(request->key());
      const service::point at = point_of(request->at());
      const auto read = [=](unary_call& reading) {
        fill_found(reading, *response, database->find(request->key(), at));
      };
      if (!database->finds_at_once(request->key(), at)) return c.go_on(door_.work, read);
      read(c);
      c.succeed();
    });
  }

  void get_many(unary_call& its, const v1::GetManyRequest* request, v1::GetManyResponse* response) {
    answer_direct(its, *request, [=, this](unary_call& c) {
      if (request->keys_size() > keys_max) {
        throw error(errc::invalid_argument,
                    fmt::format("{} keys; one call gets at most {}", request->keys_size(), keys_max));
      }
      const auto database = c.find(request->database());
      const service::database_settings settings = database->settings();
      const service::point at = point_of(request->at());
      bool at_once = request->keys_size() <= keys_at_once;
      for (const std::string& key : request->keys()) {
        c.require(settings, key, right::read);
        door_.all.require_owner(key);
        at_once = at_once && database->finds_at_once(key, at);
      }
      const auto read = [=](unary_call& reading) { get_all(reading, *database, *request, at, *response); };
      if (!at_once) return c.go_on(door_.work, read);
      read(c);
      c.succeed();
    });
  }

  void put(unary_call& its, const v1::PutRequest* request, v1::PutResponse* response) {
    answer_direct(its, *request, [=](unary_call& c) {
      service::transaction t;
      t.then.push_back(put_of(*request));
      hand_over(c, request->database(), std::move(t), [=](const service::outcome& done) {
        response->set_version(done.version);
        response->set_written(done.results.empty() ||
                              done.results.front().is == service::operation_result::state::done);
      });
    });
  }

  void remove(unary_call& its, const v1::RemoveRequest* request, v1::RemoveResponse* response) {
    answer_direct(its, *request, [=](unary_call& c) {
      service::transaction t;
      t.then.push_back(remove_of(*request));
      hand_over(c, request->database(), std::move(t), [=](const service::outcome& done) {
        response->set_version(done.version);
        if (!done.results.empty()) response->set_removed(done.results.front().count);
      });
    });
  }

  void write(unary_call& its, const v1::WriteRequest* request, v1::WriteResponse* response) {
    answer_direct(its, *request, [=, this](unary_call& c) {
      service::transaction t =
          transaction_of(*request, door_.all.options().limits.transaction_operations, &door_.all.refused());
      limit_reads(t.then);
      limit_reads(t.otherwise);
      hand_over(c, request->database(), std::move(t), [=](service::outcome& done) { fill(*response, done); });
    });
  }

  void count(unary_call& its, const v1::CountRequest* request, v1::CountResponse* response) {
    answer_on(door_.lengthy, its, *request, [=](unary_call& c) {
      const key_bounds bounds = bounds_of(request->bounds());
      const auto database = c.find(request->database(), bounds, right::read);
      const version at = database->resolve(point_of(request->at()));
      response->set_count(database->count(bounds, at));
      response->set_version(at);
    });
  }

  void scan(rows_to_client& stream, const v1::ScanRequest* request) {
    const stream_kind kind{.limits = block_limits_of(request->block_rows(), request->block_bytes())};
    service::scan_request what{.bounds = bounds_of(request->bounds()),
                               .at = point_of(request->at()),
                               .reverse = request->reverse(),
                               .limit = request->limit(),
                               .values = !request->keys_only(),
                               .versions = request->versions()};
    stream.begin(kind, request->ByteSizeLong(), [what = std::move(what), name = request->database()](grpc_call& c) {
      return c.find(name, what.bounds, right::read)->scan(what);
    });
  }

  void history(rows_to_client& stream, const v1::HistoryRequest* request) {
    stream.begin({}, request->ByteSizeLong(),
                 [key = request->key(), up_to = point_of(request->up_to()), name = request->database()](grpc_call& c) {
                   const auto database = c.find(name);
                   c.require(database->settings(), key, right::read);
                   c.door().all.require_owner(key);
                   return database->history(key, up_to);
                 });
  }

  void diff(rows_to_client& stream, const v1::DiffRequest* request) {
    service::difference_request what{
        .before = request->before(), .after = point_of(request->after()), .bounds = bounds_of(request->bounds())};
    stream.begin({}, request->ByteSizeLong(), [what = std::move(what), name = request->database()](grpc_call& c) {
      return c.find(name, what.bounds, right::read)->differences(what);
    });
  }

  void changes(rows_to_client& stream, const v1::ChangesRequest* request) {
    service::changes_request what{.after = request->after(),
                                  .up_to = point_of(request->up_to()),
                                  .bounds = bounds_of(request->bounds()),
                                  .before = request->before()};
    stream.begin({.tells = true}, request->ByteSizeLong(),
                 [what = std::move(what), name = request->database()](grpc_call& c) {
                   return c.find(name, what.bounds, right::read)->changes(what);
                 });
  }

  void watch(watch_stream& stream, const v1::WatchRequest* request) { stream.begin(*request); }

  static void get_all(grpc_call& c, service::database& database, const v1::GetManyRequest& request,
                      const service::point& point, v1::GetManyResponse& response) {
    const std::uint64_t bytes_max = answer_bytes_max(c);
    const version at = database.resolve(point);
    std::uint64_t bytes = 0;
    for (const std::string& key : request.keys()) {
      if (c.is_cancelled()) throw error(errc::cancelled, "the client cancelled the call");
      v1::GetResponse& one = *response.add_values();
      c.hold(sizeof one);
      fill_found(c, one, database.find(key, at));
      bytes += one.value().size() + sizeof one;
      if (bytes > bytes_max) {
        throw error(errc::limit_reached,
                    fmt::format("the values of {} keys have more than {} bytes; ask for fewer at once, or scan",
                                request.keys_size(), bytes_max));
      }
    }
    response.set_version(at);
  }
};

}  // namespace

std::unique_ptr<served_service> make_store_calls(door_parts& door) { return std::make_unique<store_calls>(door); }

}  // namespace icecore::doors
