import jdk.jfr.Recording;

/** Bytes that a thread allocates while the event is off count when it is on again. */
class JfrOffAndOn {
    public static void main(String[] arguments) throws Exception {
        Recording recording = new Recording();
        Jfr.enable(recording);
        recording.start();
        Jfr.allocateInWorker(1);
        recording.disable("jdk.ObjectAllocationSample");
        Jfr.allocateInWorker(100);
        Jfr.enable(recording);
        Jfr.allocateInWorker(1);
        long sum = Jfr.weights(recording, event -> Jfr.isOf(event, "worker"));
        Jfr.verdict(sum > 4L * Jfr.MIB, "1 MiB while on, 100 MiB while off, 1 MiB while on: expected 2 MiB, got %d",
            sum / Jfr.MIB);
    }
}
