// The formats of the wire: what is written is read back, and nothing else is read.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "wire/format/fields.hpp"
#include "wire/format/frame.hpp"
#include "wire/format/frame_input.hpp"
#include "wire/format/handshake.hpp"

namespace icecore::wire {
namespace {

std::span<const std::byte> bytes_of(const frame_header& header) { return std::as_bytes(std::span(&header, 1)); }

TEST(Fields, WhatIsWrittenIsReadBack) {
  byte_buffer payload;
  field_writer(payload).u8(1).u16(0x0203).u32(0x04050607).u64(0x08090A0B0C0D0E0F).text("key").text("");
  std::uint8_t a = 0;
  std::uint16_t b = 0;
  std::uint32_t c = 0;
  std::uint64_t d = 0;
  std::string_view key, empty = "not read";
  field_reader fields(payload.view());
  EXPECT_TRUE(fields.u8(a) && fields.u16(b) && fields.u32(c) && fields.u64(d) && fields.text(key) &&
              fields.text(empty));
  EXPECT_TRUE(fields.finished());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 0x0203);
  EXPECT_EQ(c, 0x04050607U);
  EXPECT_EQ(d, 0x08090A0B0C0D0E0FU);
  EXPECT_EQ(key, "key");
  EXPECT_EQ(empty, "");
  EXPECT_EQ(payload.data()[1], std::byte{3});  // little-endian
}

TEST(Fields, EveryPrefixOfAPayloadIsRefused) {
  byte_buffer payload;
  field_writer(payload).u32(7).text("a key").u64(8);
  for (std::size_t size = 0; size <= payload.size(); ++size) {
    field_reader fields(payload.view().first(size));
    std::uint32_t a = 0;
    std::uint64_t b = 0;
    std::string_view key;
    EXPECT_EQ(fields.u32(a) && fields.text(key) && fields.u64(b) && fields.finished(), size == payload.size()) << size;
  }
}

TEST(Fields, BytesBehindTheLastFieldAreNoticed) {
  byte_buffer payload;
  field_writer(payload).u32(7).u8(0);
  field_reader fields(payload.view());
  std::uint32_t value = 0;
  EXPECT_TRUE(fields.u32(value));
  EXPECT_FALSE(fields.finished());
}

TEST(Fields, AfterOneFailureNothingIsReadAnyMore) {
  byte_buffer payload;
  field_writer(payload).u32(1000).u32(5);  // a length of 1,000 bytes, of which 4 are there
  field_reader fields(payload.view());
  std::span<const std::byte> read;
  std::uint8_t byte = 0;
  EXPECT_FALSE(fields.bytes(read));
  EXPECT_FALSE(fields.u8(byte));
  EXPECT_FALSE(fields.finished());
}

TEST(Frame, HeadersOfOtherLengthsMagicFormatFlagsOrPayloadAreRefused) {
  frame_header read;
  const frame_header good{.payload_bytes = 5};
  EXPECT_EQ(read_header(bytes_of(good), 5, read), frame_defect::none);
  EXPECT_EQ(read_header(bytes_of(good).first(23), 5, read), frame_defect::short_header);
  EXPECT_EQ(read_header({}, 5, read), frame_defect::short_header);
  EXPECT_EQ(read_header(bytes_of(good), 4, read), frame_defect::contradictory_length);
  frame_header bad = good;
  bad.magic = 0;
  EXPECT_EQ(read_header(bytes_of(bad), 5, read), frame_defect::wrong_magic);
  bad = good;
  bad.format = 2;
  EXPECT_EQ(read_header(bytes_of(bad), 5, read), frame_defect::unknown_format);
  for (const unsigned flags : {2U, 5U, 6U, 7U, 10U, 13U, 16U, 128U}) {
    bad = good;
    bad.flags = static_cast<std::uint8_t>(flags);
    EXPECT_EQ(read_header(bytes_of(bad), 5, read), frame_defect::unknown_flags) << flags;
  }
}

TEST(Frame, AMessageIsNoLongerThanAPiece) {
  frame_header read;
  frame_header header{.payload_bytes = piece_bytes};
  EXPECT_EQ(read_header(bytes_of(header), piece_bytes, read), frame_defect::none);
  header.payload_bytes = piece_bytes + 1;
  EXPECT_EQ(read_header(bytes_of(header), piece_bytes + 1, read), frame_defect::long_message);
  header.flags = flag_piece;
  header.payload_bytes = 100'000;
  EXPECT_EQ(read_header(bytes_of(header), piece_bytes, read), frame_defect::none);
  EXPECT_EQ(read_header(bytes_of(header), piece_bytes + 1, read), frame_defect::long_message);
}

TEST(Frame, APieceIsShorterThanItsFrameAndNotEmpty) {
  frame_header read;
  const frame_header piece{.flags = flag_piece, .payload_bytes = 5};
  EXPECT_EQ(read_header(bytes_of(piece), 1, read), frame_defect::none);
  EXPECT_EQ(read_header(bytes_of(piece), 4, read), frame_defect::none);
  for (const std::size_t bytes : {0U, 5U, 6U}) {
    EXPECT_EQ(read_header(bytes_of(piece), bytes, read), frame_defect::contradictory_length) << bytes;
  }
}

TEST(FrameInput, PutsPiecesTogetherAndNothingElse) {
  using state = frame_input::state;
  const std::string text(100, 'p');
  const byte_buffer payload = byte_buffer(std::as_bytes(std::span(text)));
  const frame_header header{.flags = flag_answer, .request = 7, .payload_bytes = 100};
  const auto piece = [&](std::size_t at, std::size_t bytes) { return payload.view().subspan(at, bytes); };
  frame_input input;
  input.begin(header);
  EXPECT_TRUE(input.under_way());
  EXPECT_EQ(input.add(header, piece(0, 60)), state::more);
  EXPECT_EQ(input.add(header, piece(60, 40)), state::whole);
  EXPECT_FALSE(input.under_way());
  EXPECT_TRUE(std::ranges::equal(input.take().view(), payload.view()));

  input.leave_out(header);
  EXPECT_FALSE(input.wanted());
  EXPECT_EQ(input.add(header, piece(0, 99)), state::more);
  EXPECT_EQ(input.add(header, piece(99, 1)), state::left_out);

  input.begin(header);
  EXPECT_EQ(input.add(header, piece(0, 60)), state::more);
  EXPECT_EQ(input.add(header, piece(0, 60)), state::broken);  // more than is missing
  frame_header other = header;
  other.request = 8;
  EXPECT_EQ(input.add(other, piece(60, 40)), state::broken);
  input.clear();
  EXPECT_FALSE(input.under_way());
}

TEST(Handshake, RecordsAreReadBack) {
  const hello said{.token = "t", .user = "u", .secret = "s", .group = "g", .name = "n"};
  const byte_buffer record = encode(said);
  bool malformed = false;
  const auto read = next_record(record.view(), hello_bytes_max, malformed);
  ASSERT_TRUE(read && !malformed);
  EXPECT_EQ(read->kind, record_kind::hello);
  hello back;
  ASSERT_TRUE(decode(read->body, back));
  EXPECT_EQ(std::tie(back.token, back.user, back.secret, back.group, back.name),
            std::tie(said.token, said.user, said.secret, said.group, said.name));
  EXPECT_FALSE(next_record(record.view().first(record.size() - 1), hello_bytes_max, malformed));
  EXPECT_FALSE(malformed);  // it may still become one
  EXPECT_FALSE(next_record(record.view(), read->body.size() - 1, malformed));
  EXPECT_TRUE(malformed);  // longer than is allowed
}

TEST(Handshake, AStrangersFirstByteIsEnoughToRefuseIt) {
  bool malformed = false;
  const std::string_view other = "G";
  EXPECT_FALSE(next_record(std::as_bytes(std::span(other)), hello_bytes_max, malformed));
  EXPECT_TRUE(malformed);
}

RC_GTEST_PROP(Handshake, RandomBytesAreNeverRead, (const std::vector<std::uint8_t>& bytes)) {
  const auto view = std::as_bytes(std::span(bytes));
  hello said;
  welcome told;
  goodbye left;
  std::vector<std::byte> address;
  bool malformed = false;
  static_cast<void>(next_record(view, hello_bytes_max, malformed));
  static_cast<void>(decode(view, said));
  RC_ASSERT(!decode(view, told) || bytes.size() >= 28);
  static_cast<void>(decode(view, left));
  RC_ASSERT(!decode_address(view, address) || address.size() + 4 == bytes.size());
}

RC_GTEST_PROP(Handshake, SecretsAreEqualIfTheyAre, (const std::string& a, const std::string& b)) {
  RC_ASSERT(same_secret(a, a));
  RC_ASSERT(same_secret(a, b) == (a == b));
  RC_ASSERT(!same_secret(a, a + "x") && !same_secret(a + "x", a));
}

}  // namespace
}  // namespace icecore::wire
