// Peers that do not know the token or the protocol, and peers that know both and break the rules.
#include <gtest/gtest.h>

#include <deque>

#include "wire/client/wire_up.hpp"
#include "wire_support.hpp"

namespace icecore::wire::testing {
namespace {

class WireStrangers : public ::testing::Test {
 protected:
  WireStrangers() : server_(settings(), answers_) {}

  static server_settings settings() {
    server_settings made = settings_of_server();
    made.limits.handshake_ms = 200;
    return made;
  }
  std::uint64_t closed(close_reason reason) { return server_.counters().closed[static_cast<std::size_t>(reason)]; }
  close_reason refused(client_settings how) {
    try {
      const client_endpoint client(std::move(how));
    } catch (const failure& told) {
      return told.reason();
    }
    return close_reason::none;
  }
  /// The server still serves those who behave.
  void well_behaved_client_is_served() {
    client_endpoint client(settings_of_client(server_));
    EXPECT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
  }

  service answers_;
  server_endpoint server_;
};

TEST_F(WireStrangers, TheTokenTheUserAndTheGroupAreChecked) {
  client_settings how = settings_of_client(server_);
  for (const std::string& token :
       {std::string(), job_token + " ", job_token.substr(1), std::string("Q") + job_token.substr(1)}) {
    how.token = token;
    EXPECT_EQ(refused(how), close_reason::wrong_token) << token;
  }
  how.token = job_token;
  how.user = "stranger";
  EXPECT_EQ(refused(how), close_reason::wrong_token);
  how.user = "friend";
  how.group = "group 2";
  EXPECT_EQ(refused(how), close_reason::other_group);
  how.group = "group 1";
  EXPECT_EQ(refused(how), close_reason::none);
  EXPECT_EQ(server_.counters().connections_accepted, 1U);
}

TEST_F(WireStrangers, BytesThatAreNoHandshakeEndTheConnectionAtOnce) {
  byte_buffer unknown_kind, long_hello, lying_field;
  field_writer(unknown_kind).u32(record_magic).u16(9).u16(0);
  field_writer(long_hello).u32(record_magic).u16(1).u16(4089);
  field_writer(lying_field).u32(record_magic).u16(1).u16(8).u32(protocol_version).u32(1'000'000);
  byte_buffer other_protocol(std::as_bytes(std::span("GET / HTTP/1.1")));
  for (const byte_buffer* const said : {&other_protocol, &unknown_kind, &long_hello, &lying_field}) {
    raw_peer peer(server_);
    peer.say(said->view());
    EXPECT_EQ(peer.listen(), close_reason::malformed);
  }
  raw_peer address_first(server_);
  address_first.say(encode_address(std::vector<std::byte>(100)).view());
  EXPECT_EQ(address_first.listen(), close_reason::malformed);
  EXPECT_EQ(closed(close_reason::malformed), 5U);
  EXPECT_LE(answers_.warning_count(), 2U);  // one a second, however many there were
  well_behaved_client_is_served();
}

TEST_F(WireStrangers, AnotherVersionIsToldSo) {
  raw_peer peer(server_);
  peer.say(encode(hello{.version = 77}).view());
  EXPECT_EQ(peer.listen(), close_reason::other_protocol);
}

TEST_F(WireStrangers, SilenceAndTricklingBytesEndWithTheHandshakesTime) {
  raw_peer silent(server_), half(server_);
  const byte_buffer said = encode(hello{.token = job_token});
  half.say(said.view().first(said.size() / 2));
  EXPECT_EQ(silent.listen(), close_reason::too_slow);
  EXPECT_EQ(half.listen(), close_reason::too_slow);
  raw_peer trickling(server_);
  for (std::size_t i = 0; i + 1 < said.size() && closed(close_reason::too_slow) < 3; ++i) {
    trickling.say(said.view().subspan(i, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(trickling.listen(), close_reason::too_slow);
  well_behaved_client_is_served();
}

TEST_F(WireStrangers, APeerThatVanishesDuringTheHandshakeIsForgotten) {
  {
    raw_peer peer(server_);
    peer.say(encode(hello{.token = job_token}).view());
    byte_buffer body;
    EXPECT_EQ(peer.socket().read_record(body, soon()), record_kind::welcome);
    EXPECT_EQ(server_.counters().connections_open, 1U);
  }
  const auto limit = soon();
  while (server_.counters().connections_open != 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(server_.counters().connections_open, 0U);
  well_behaved_client_is_served();
}

/// `ready` says that UCX has connected the server's endpoint, which takes the client's progress.
TEST(WireReady, AClientThatUcxDoesNotConnectIsSentAwayInTime) {
  server_settings settings = settings_of_server(transport::tcp);
  settings.limits.handshake_ms = 1000;
  service answers;
  const server_endpoint server(settings, answers);
  const ucx_worker idle({.way = transport::tcp, .network_devices = "lo"});
  raw_peer peer(server);
  peer.say(encode(hello{.token = job_token}).view());
  byte_buffer body;
  ASSERT_EQ(peer.socket().read_record(body, soon()), record_kind::welcome);
  peer.say(encode_address(idle.address()).view());
  close_reason told = close_reason::none;
  try {
    EXPECT_NE(peer.socket().read_record(body, soon()), record_kind::ready);
  } catch (const failure& sent_away) {
    told = sent_away.reason();
  }
  EXPECT_EQ(told, close_reason::too_slow);
  EXPECT_EQ(answers.wait_for_close(), close_reason::too_slow);
  client_endpoint client(settings_of_client(server, transport::tcp));
  EXPECT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
}

/// A peer that knows the token and speaks UCX, but sends frames of its own making.
class WireRuleBreakers : public WireStrangers {
 protected:
  WireRuleBreakers() : worker_({.way = transport::shared_memory}) {
    wired_ = wire_up(server_.address(), hello{.token = job_token}, worker_, soon());
    std::string why;
    endpoint_ = worker_.make_endpoint(
        wired_.told.worker_address, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr, why);
  }
  ~WireRuleBreakers() override {
    void* closing = worker_.close_endpoint(endpoint_, true);
    while (!worker_.closed(closing)) worker_.progress();
  }

  void send(std::span<const std::byte> header_given, std::span<const std::byte> payload_given, unsigned flags = 0) {
    const byte_buffer& header = sent_.emplace_back(header_given);
    const byte_buffer& payload = sent_.emplace_back(payload_given);
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = UCP_AM_SEND_FLAG_REPLY | flags;
    void* const request =
        ucp_am_send_nbx(endpoint_, frame_message, header.data(), header.size(), payload.data(), payload.size(), &how);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests_.push_back(request);
  }
  close_reason listen() {
    const auto limit = soon();
    for (byte_buffer body; std::chrono::steady_clock::now() < limit;) {
      worker_.progress();
      try {
        static_cast<void>(wired_.socket.read_record(body, in(std::chrono::milliseconds(1))));
      } catch (const failure& told) {
        if (told.reason() != close_reason::too_slow) return told.reason();
      }
    }
    return close_reason::none;
  }
  [[nodiscard]] frame_header good() const { return {.operation = echo, .connection = wired_.told.connection}; }
  void sends_a_bad_frame(const frame_header& header, std::size_t payload_bytes = 0) {
    send(std::as_bytes(std::span(&header, 1)), std::vector<std::byte>(payload_bytes));
    EXPECT_EQ(listen(), close_reason::malformed);
    EXPECT_EQ(answers_.wait_for_close(), close_reason::malformed);
    well_behaved_client_is_served();
  }

  void sends_a_long_message(unsigned flags) {
    frame_header header = good();
    header.payload_bytes = 1'000'000;
    send(std::as_bytes(std::span(&header, 1)), std::vector<std::byte>(header.payload_bytes), flags);
    EXPECT_EQ(listen(), close_reason::malformed);
    well_behaved_client_is_served();
  }

  std::deque<byte_buffer> sent_;  // UCX reads them until the endpoint is closed
  ucx_worker worker_;
  wired_up wired_;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<void*> requests_;
};

TEST_F(WireRuleBreakers, AShortHeader) {
  const frame_header header = good();
  send(std::as_bytes(std::span(&header, 1)).first(23), {});
  EXPECT_EQ(listen(), close_reason::malformed);
  well_behaved_client_is_served();
}

TEST_F(WireRuleBreakers, NoHeaderAtAll) {
  send({}, std::vector<std::byte>(100));
  EXPECT_EQ(listen(), close_reason::malformed);
  well_behaved_client_is_served();
}

TEST_F(WireRuleBreakers, AWrongMagic) {
  frame_header header = good();
  header.magic = 1;
  sends_a_bad_frame(header);
}

TEST_F(WireRuleBreakers, ALengthThatContradicts) {
  frame_header header = good();
  header.payload_bytes = 100;
  sends_a_bad_frame(header, 99);
}

TEST_F(WireRuleBreakers, ALongPayloadOfAnotherLength) {
  frame_header header = good();
  header.payload_bytes = 1'000'000;
  sends_a_bad_frame(header, 2'000'000);
}

TEST_F(WireRuleBreakers, AnAnswerInPlaceOfARequest) {
  frame_header header = good();
  header.flags = flag_answer;
  sends_a_bad_frame(header);
}

TEST_F(WireRuleBreakers, ALongMessageByRendezvous) { sends_a_long_message(UCP_AM_SEND_FLAG_RNDV); }
TEST_F(WireRuleBreakers, ALongMessageInOne) { sends_a_long_message(UCP_AM_SEND_FLAG_EAGER); }

TEST_F(WireRuleBreakers, AFrameBetweenThePiecesOfAnother) {
  frame_header header = good();
  header.flags = flag_piece;
  header.payload_bytes = 100'000;
  send(std::as_bytes(std::span(&header, 1)), std::vector<std::byte>(1'000));
  sends_a_bad_frame(good());
}

TEST_F(WireRuleBreakers, APieceOfAnotherFrame) {
  frame_header header = good();
  header.flags = flag_piece;
  header.payload_bytes = 100'000;
  send(std::as_bytes(std::span(&header, 1)), std::vector<std::byte>(1'000));
  ++header.request;
  sends_a_bad_frame(header, 1'000);
}

TEST_F(WireRuleBreakers, MorePiecesThanAreMissing) {
  frame_header header = good();
  header.flags = flag_piece;
  header.payload_bytes = 2'000;
  send(std::as_bytes(std::span(&header, 1)), std::vector<std::byte>(1'500));
  sends_a_bad_frame(header, 501);
}

TEST_F(WireRuleBreakers, AnUnknownHandle) {
  frame_header header = good();
  header.connection ^= 0x00010000U;
  sends_a_bad_frame(header);
}

TEST_F(WireRuleBreakers, AHandleBehindTheTable) {
  frame_header header = good();
  header.connection |= 0xFFFFU;
  sends_a_bad_frame(header);
}

TEST_F(WireRuleBreakers, AnotherPeersHandleEndsTheOneThatUsedItAlone) {
  client_endpoint client(settings_of_client(server_));
  frame_header header = good();
  header.connection = client.told().connection;
  sends_a_bad_frame(header);
  EXPECT_EQ(client.call(echo, 0, number(1), soon()).how, outcome::answered);
}

TEST_F(WireRuleBreakers, BytesOnTheControlSocket) {
  static_cast<void>(wired_.socket.write_now(std::as_bytes(std::span("hello?"))));
  EXPECT_EQ(listen(), close_reason::malformed);
  well_behaved_client_is_served();
}

TEST_F(WireRuleBreakers, APeerCutInTheMiddleOfALongRequest) {
  frame_header header = good();
  header.payload_bytes = 4'000'000;
  header.flags = flag_piece;
  const std::vector<std::byte> piece(piece_bytes);
  for (int i = 0; i < 10; ++i) send(std::as_bytes(std::span(&header, 1)), piece);
  wired_.socket.close();
  EXPECT_EQ(answers_.wait_for_close(), close_reason::lost);
  well_behaved_client_is_served();
}

}  // namespace
}  // namespace icecore::wire::testing
