import java.util.Random;
import jdk.jfr.Recording;

/** Arrays of 64 KiB and small ones, with equal bytes and in random order. */
class JfrLargeObjects {
    static final int LARGE = 64 << 10, SMALL = 256, MEBIBYTES = 400;

    public static void main(String[] arguments) throws Exception {
        long large = sum("[B"), small = sum("[J");
        Jfr.verdict(large < small / 2, "of equal bytes: large arrays report %d MiB, small ones %d",
            large / Jfr.MIB, small / Jfr.MIB);
    }

    static long sum(String name) throws Exception {
        Recording recording = new Recording();
        Jfr.enable(recording);
        recording.start();
        Jfr.WORKER.submit(JfrLargeObjects::allocate).get();
        return Jfr.weights(recording, event -> Jfr.isOf(event, "worker")
            && event.getClass("objectClass").getName().equals(name));
    }

    static void allocate() {
        Random random = new Random(1);
        for (int larges = MEBIBYTES * (Jfr.MIB / LARGE); larges > 0;) {
            if (random.nextInt(LARGE / SMALL + 1) == 0) {
                Jfr.sink = new byte[LARGE - 16];
                larges--;
            } else {
                Jfr.sink = new long[SMALL / 8 - 2];
            }
        }
    }
}
