// Versions and Leases: tags, compaction; keys that end by themselves.
#include <icecore/v1/icecore.pb.h>

#include <fmt/format.h>

#include <utility>

#include "doors/grpc/calls/conversation.hpp"
#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

using service::right;

class version_calls final : public served_service {
 public:
  explicit version_calls(door_parts& door) : served_service(door, "icecore.v1.Versions") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Tag", &version_calls::tag);
    wait_for_unary(*this, queue, "List", &version_calls::list);
    wait_for_unary(*this, queue, "Find", &version_calls::find);
    wait_for_unary(*this, queue, "Resolve", &version_calls::resolve);
    wait_for_unary(*this, queue, "Sync", &version_calls::sync);
    wait_for_unary(*this, queue, "Compact", &version_calls::compact);
  }

 private:
  void tag(unary_call& its, const v1::TagRequest* request, v1::TagResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      const auto database = c.find(request->database(), key_bounds{}, right::write);
      tag_options label{.name = request->name(), .note = request->note(), .time_ns = {}};
      if (request->has_time_ns()) label.time_ns = request->time_ns();
      response->set_version(database->tag(label));
    });
  }

  void list(unary_call& its, const v1::ListTagsRequest* request, v1::ListTagsResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      std::size_t bytes = 0;
      for (const tag_info& tag : c.find(request->database())->tags()) {
        fill(*response->add_tags(), tag);
        bytes += tag.name.size() + tag.note.size() + sizeof(v1::Tag);
      }
      c.hold(bytes);
    });
  }

  void find(unary_call& its, const v1::FindTagRequest* request, v1::FindTagResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      if (const auto tag = c.find(request->database())->find_tag(point_of(request->at()))) {
        fill(*response->mutable_tag(), *tag);
      }
    });
  }

  void resolve(unary_call& its, const v1::ResolveRequest* request, v1::ResolveResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      response->set_version(c.find(request->database())->resolve(point_of(request->at())));
    });
  }

  void sync(unary_call& its, const v1::SyncRequest* request, v1::SyncResponse*) {
    answer_on(door_.work, its, *request, [=](unary_call& c) { c.find(request->database())->sync(); });
  }

  void compact(unary_call& its, const v1::CompactRequest* request, v1::CompactResponse*) {
    answer_on(door_.lengthy, its, *request, [=](unary_call& c) {
      c.find(request->database(), key_bounds{}, right::administer)->compact(request->oldest_kept());
    });
  }
};

/// Leases that are kept alive over one stream.
class lease_keeper : public conversation {
 public:
  using conversation::conversation;

 private:
  void came() override {
    send_headers();  // the client sees that the stream is open
    begin(false);
  }
  void asked() override {
    if (!decode(request_)) return finish_once([&] { return ended_as(undecodable); });
    if (hold_task()) door().work.post([this] { keep_alive(); });
  }
  void keep_alive() {
    try {
      renew_user();
      fill(answer_, find(request_.database())->keep_alive(request_.number()));
      answer_.clear_keys();
      reply(answer_);
    } catch (...) {
      const service::failure why = service::failure_of(std::current_exception());
      finish_once([&] { return ended_by(why); });
    }
    release();
  }

  v1::LeaseRequest request_;
  v1::Lease answer_;
};

class lease_calls final : public served_service {
 public:
  explicit lease_calls(door_parts& door) : served_service(door, "icecore.v1.Leases") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Grant", &lease_calls::grant);
    wait_for<lease_keeper>(queue, "KeepAlive");
    wait_for_unary(*this, queue, "Revoke", &lease_calls::revoke);
    wait_for_unary(*this, queue, "Get", &lease_calls::get);
    wait_for_unary(*this, queue, "List", &lease_calls::list);
  }

 private:
  void grant(unary_call& its, const v1::GrantRequest* request, v1::Lease* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      constexpr std::uint64_t ten_years_ms = 315'576'000'000;
      if (request->time_ms() < 1000 || request->time_ms() > ten_years_ms) {
        throw error(errc::invalid_argument,
                    fmt::format("a lease of {} ms: it may be 1 second to 10 years", request->time_ms()));
      }
      const auto database = c.find(request->database());
      fill(*response, database->grant(std::chrono::milliseconds(request->time_ms()), request->number()));
    });
  }

  /// Whoever ends a lease removes its keys, so must be allowed to write all of them.
  void revoke(unary_call& its, const v1::LeaseRequest* request, v1::RevokeResponse* response) {
    answer_direct(its, *request, [=, this](unary_call& c) {
      door_.work.post([=, &c] {
        if (c.is_cancelled()) return c.fail(cancelled_by_client());
        c.attempt([&](unary_call& revoking) { revoke_now(revoking, *request, *response); });
      });
    });
  }

  void get(unary_call& its, const v1::LeaseRequest* request, v1::Lease* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      const auto database = c.find(request->database());
      const service::lease_info lease = database->lease(request->number(), request->keys());
      const service::database_settings settings = database->settings();
      for (const std::string& key : lease.keys) c.require(settings, key, right::read);
      fill(*response, lease);
    });
  }

  void list(unary_call& its, const v1::ListLeasesRequest* request, v1::ListLeasesResponse* response) {
    answer_on(door_.work, its, *request, [=](unary_call& c) {
      const auto numbers = c.find(request->database())->leases();
      response->mutable_numbers()->Assign(numbers.begin(), numbers.end());
    });
  }

  static void revoke_now(unary_call& c, const v1::LeaseRequest& request, v1::RevokeResponse& response) {
    const auto database = c.find(request.database());
    const service::principal who = c.who();
    const auto may_remove = [who, is = database->settings()](std::string_view key) {
      who.require(is.name, is.owner, key, right::write);
    };
    database->revoke(request.number(), may_remove, [&c, &response](service::result<service::outcome> done) {
      if (const auto* const failed = std::get_if<service::failure>(&done)) return c.fail(*failed);
      const auto& what = std::get<service::outcome>(done);
      response.set_version(what.version);
      std::uint64_t removed = 0;
      for (const service::operation_result& result : what.results) removed += result.count;
      response.set_removed(removed);
      c.succeed();
    });
  }
};

}  // namespace

std::unique_ptr<served_service> make_version_calls(door_parts& door) { return std::make_unique<version_calls>(door); }
std::unique_ptr<served_service> make_lease_calls(door_parts& door) { return std::make_unique<lease_calls>(door); }

}  // namespace icecore::doors
