#include "technique.h"

int main(int argc, char **argv)
{
  return escape_attempt_main(argc, argv);
}
