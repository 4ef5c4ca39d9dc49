import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * A sampling counter, and nothing else: no heap, no collector.
 *
 * <p>It speaks gcfuzz's protocol (docs/protocol.md), so that the rule by which it samples is checked
 * allocation by allocation. Every byte counts; whenever more than {@code periodBytes} have been
 * counted, one sample is taken and that many bytes are forgotten. With {@code --off-by-one} it has
 * the mistake that such counters tend to have: it compares with >=.
 *
 * <p>A counter in any language has three parts: a contract, which says what is promised; actions,
 * which the counter carries out, and your sampler will in its place; lines, each of which gets one
 * answer. {@code gcfuzz schema} prints a JSON Schema of the lines.
 */
class Counter {
  private static final int FIXED_BYTES = 16; // As the layout says.

  // There is no nursery; sizes around 1024 bytes are interesting all the same.
  private static final String CONTRACT =
      """
      {
        "nursery_bytes": 1024,
        "layout": {
          "kinds": {"string": {"type_index": 1, "fixed_bytes": 16, "item_bytes": 1}},
          "large_object_bytes": 65537,
          "word_bytes": 1,
          "object_bytes_max": 65536
        },
        "sampling": {"period_bytes": {"minimum": 1, "maximum": 1048576}, "disabling": ["drop"]},
        "actions": ["allocate_string", "free", "enable_sampling", "disable_sampling"],
        "observes": ["samples", "size"]
      }""";

  private final boolean offByOne;
  private long periodBytes; // 0 while sampling is off.
  private long countedBytes; // Since the last sample.

  private Counter(boolean offByOne) {
    this.offByOne = offByOne;
  }

  private boolean isDue() {
    return offByOne ? countedBytes >= periodBytes : countedBytes > periodBytes;
  }

  private String allocate(long size) {
    long samples = 0;
    if (periodBytes > 0) {
      countedBytes += size;
      for (; isDue(); samples++) {
        countedBytes -= periodBytes;
      }
    }
    return "{\"samples\": %d, \"size\": %d}".formatted(samples, size);
  }

  private String sample(long everyBytes) {
    periodBytes = everyBytes;
    countedBytes = 0;
    return "{}";
  }

  private String answer(String line) {
    if (line.startsWith("{\"gcfuzz\":")) {
      sample(0);
      return "{\"contract\": %s}".formatted(CONTRACT.replace("\n", ""));
    }
    Map<String, String> action = flatObject(line);
    return switch (action.get("do")) {
      case "allocate_string" -> allocate(FIXED_BYTES + Long.parseLong(action.get("length")));
      case "free" -> "{}";
      case "enable_sampling" -> sample(Long.parseLong(action.get("period_bytes")));
      case "disable_sampling" -> sample(0);
      default -> throw new IllegalArgumentException();
    };
  }

  /**
   * The keys of an action with their values. None of these is an object, a list or a string with a
   * comma in it, so that a reader of all JSON would be too much.
   */
  private static Map<String, String> flatObject(String line) {
    if (!line.startsWith("{") || !line.endsWith("}")) {
      throw new IllegalArgumentException();
    }
    var object = new HashMap<String, String>();
    for (String pair : line.substring(1, line.length() - 1).split(",")) {
      String[] sides = pair.replace("\"", "").split(":");
      object.put(sides[0].strip(), sides[1].strip());
    }
    return object;
  }

  public static void main(String[] arguments) throws IOException {
    var counter = new Counter(Arrays.asList(arguments).contains("--off-by-one"));
    var lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String reply;
      try {
        reply = counter.answer(line);
      } catch (RuntimeException problem) {
        reply = "{\"error\": \"%s\"}".formatted(problem.getClass().getSimpleName());
      }
      System.out.println(reply);
    }
  }
}
