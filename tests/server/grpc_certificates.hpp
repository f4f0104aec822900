// Certificates for tests, made by OpenSSL when a test asks for them.
//
//   test_authority authority;
//   signed_certificate server = authority.sign("localhost");    // PEM: server.certificate, server.key
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace icecore::doors {

struct signed_certificate {
  std::string certificate;
  std::string key;
};

class test_authority {
 public:
  test_authority() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), own_(make("icecore's test authority", *key_, true)) {}

  [[nodiscard]] std::string certificate_text() const { return text_of(*own_); }
  [[nodiscard]] signed_certificate sign(const std::string& common_name) const {
    const pkey key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const certificate made = make(common_name, *key, false);
    const bio out(BIO_new(BIO_s_mem()), BIO_free_all);
    PEM_write_bio_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {text_of(*made), text_of(*out)};
  }

 private:
  using pkey = std::shared_ptr<EVP_PKEY>;
  using certificate = std::shared_ptr<X509>;
  using bio = std::unique_ptr<BIO, void (*)(BIO*)>;

  static std::string text_of(BIO& memory) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(&memory, &bytes);
    return {bytes, static_cast<std::size_t>(size)};
  }
  static std::string text_of(X509& what) {
    const bio out(BIO_new(BIO_s_mem()), BIO_free_all);
    PEM_write_bio_X509(out.get(), &what);
    return text_of(*out);
  }
  static void extend(X509& made, int kind, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    X509_add_ext(&made, extension, -1);
    X509_EXTENSION_free(extension);
  }
  certificate make(const std::string& common_name, EVP_PKEY& of, bool authority) const {
    certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), X509_VERSION_3);
    static long serial = 1;
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 86'400);
    X509_set_pubkey(made.get(), &of);
    const auto* const name = reinterpret_cast<const unsigned char*>(common_name.c_str());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8, name, -1, -1, 0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(authority ? made.get() : own_.get()));
    extend(*made, NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (!authority) extend(*made, NID_subject_alt_name, "DNS:" + common_name);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }

  pkey key_;
  certificate own_;
};

}  // namespace icecore::doors
