#include "cli.h"
#include "prove.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asked {
  int json, prove;
};

static int usage(int argc, char **argv, struct asked *asked) {
  for (int i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      puts("usage: confine doctor [--json] [--prove]\n\n"
           "  --json                 the report as one line of JSON, confine-results(5)\n"
           "  --prove                attack: try to escape from each usable runner, in both modes\n"
           "  --help                 this text");
      return 0;
    }
    if (strcmp(argv[i], "--json") == 0) {
      asked->json = 1;
    } else if (strcmp(argv[i], "--prove") == 0) {
      asked->prove = 1;
    } else {
      cli_refuse("doctor: unknown argument %s; it takes --json and --prove", argv[i]);
      return -1;
    }
  }
  return 1;
}

static void print_gaps(uint32_t gaps) {
  const char *separator = " (gaps: ";
  for (uint32_t bit = 1; bit; bit <<= 1)
    if ((gaps & bit) && confine_gap_name(bit)) {
      printf("%s%s", separator, confine_gap_name(bit));
      separator = ", ";
    }
  if (gaps)
    putchar(')');
}

static void print_runner(const confine_runner_report *entry) {
  printf("  %-11s %s", confine_runner_name(entry->runner), entry->usable ? "usable, enforcement " : "not usable");
  if (entry->usable) {
    printf("%s", confine_enforcement_name(entry->enforcement));
    print_gaps(entry->gaps);
  }
  putchar('\n');
  if (entry->path)
    printf("  %-11s program: %s%s%s\n", "", entry->path, entry->version ? ", version " : "",
           entry->version ? entry->version : "");
  if (entry->reason)
    printf("  %-11s reason: %s\n", "", entry->reason);
  if (entry->repair)
    printf("  %-11s repair: %s\n", "", entry->repair);
}

static void print_report(const confine_host_report *report) {
  confine_runner selected = confine_host_report_selected(report);
  int abi = confine_host_report_landlock_abi(report);
  if (selected == CONFINE_RUNNER_NONE)
    puts("No runner is usable on this host: confine refuses to run anything confined here.\n");
  else
    printf("Commands run under: %s\n\n", confine_runner_name(selected));
  for (size_t i = 0; i < confine_host_report_count(report); i++) {
    confine_runner_report entry = {.size = sizeof entry};
    if (confine_host_report_entry(report, i, &entry) == 0)
      print_runner(&entry);
  }
  if (abi)
    printf("\nThe kernel's Landlock: ABI %d\n", abi);
  else
    puts("\nThe kernel's Landlock: none");
}

static int print_json(const confine_host_report *report) {
  confine_error error = CONFINE_ERROR_INIT;
  char *json = NULL;
  if (confine_host_report_json(report, &json, &error) < 0)
    return cli_refuse_error(&error);
  puts(json);
  free(json);
  return 0;
}

int cli_doctor(int argc, char **argv) {
  struct asked asked = {0};
  confine_settings settings = CONFINE_SETTINGS_INIT;
  confine_provider *provider = NULL;
  confine_host_report *report = NULL;
  confine_error error = CONFINE_ERROR_INIT;
  int status = usage(argc, argv, &asked);
  if (status <= 0)
    return status == 0 ? 0 : CLI_REFUSED;
  status = 0;
  if (confine_provider_new(&settings, &provider, &error) < 0 ||
      confine_provider_examine(provider, &report, &error) < 0) {
    status = cli_refuse_error(&error);
  } else if (asked.prove) {
    status = cli_prove(report, asked.json);
  } else {
    if (asked.json)
      status = print_json(report);
    else
      print_report(report);
    if (status == 0)
      status = cli_flush(stdout);
    if (status == 0 && confine_host_report_selected(report) == CONFINE_RUNNER_NONE)
      status = 1;
  }
  confine_host_report_free(report);
  confine_provider_free(provider);
  return status;
}
