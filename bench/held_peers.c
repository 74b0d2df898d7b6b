// Loaded before the engines of bench/held_peers.py (LD_PRELOAD): answers the CPUID instructions that were taken out of them as a processor with AVX2 and FMA would, without AVX-VNNI, AVX-512 and AMX.
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

static struct sigaction before;

// Bits by Intel's and AMD's manuals, CPUID leaves 7 (features), 0xD (state that XSAVE keeps), 0x24 (AVX10).
static void hide(unsigned leaf, unsigned subleaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  if (leaf == 7 && subleaf == 0) {
    *b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));  // F, DQ, IFMA, PF, ER, CD, BW, VL
    *c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));                                  // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    *d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));               // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX
  }
  if (leaf == 7 && subleaf == 1) {
    *a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));   // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA
    *d &= ~(BIT(4) | BIT(5) | BIT(10) | BIT(19));   // AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16, AVX10
  }
  if (leaf == 0xd && subleaf == 0) *a &= ~(BIT(5) | BIT(6) | BIT(7) | BIT(17) | BIT(18));  // mask registers, ZMM, tiles
  if (leaf == 0x24) *a = *b = *c = *d = 0;
}

static void on_illegal_instruction(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)registers[REG_RIP];
  if (at[0] != 0x0f || at[1] != 0x0b) {  // not one of ours: fails again, as it would have
    sigaction(SIGILL, &before, 0);
    return;
  }
  unsigned a, b, c, d, leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
  __cpuid_count(leaf, subleaf, a, b, c, d);
  hide(leaf, subleaf, &a, &b, &c, &d);
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, &before);
}
