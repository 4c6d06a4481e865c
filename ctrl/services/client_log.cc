#include "ctrl/services/client_log.h"

#include "ctrl/report/text.h"

namespace understudy {

void ClientLog::ended(RunReport& report, const ServiceReport& client) {
  if (report.services.size() < kMostClients) {
    report.services.push_back(client);
    return;
  }
  ++report.services_left_out.clients;
  if (!client.error.empty()) ++report.services_left_out.failed;
}

void ClientLog::line(const std::string& text) {
  if (lines_++ < kMostLines) {
    say_(text);
  } else {
    ++unsaid_;
  }
}

void ClientLog::poll(Time now) {
  if (unsaid_ == 0 || now < next_summary_) return;
  finish();
  next_summary_ = now + kSummaryEvery;
}

void ClientLog::finish() {
  if (unsaid_ != 0) say_("clients of services: " + count_text(unsaid_, "more line") + " left out");
  unsaid_ = 0;
}

}  // namespace understudy
