(ns magnetar.house.runtime-test
  "What a Java that is too old, or a checkout without compiled kernel, is told."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.lint.layers :as layers]
   [magnetar.dev.lint.sources :as sources]
   [magnetar.dev.processes :refer [home jdks start]]
   [magnetar.impl.runtime :as runtime]))

(defn- message [java]
  (:message (runtime/complaint java)))

(deftest an-old-java-is-named-with-its-place
  (is (= (str "Magnetar needs JDK 25 or newer; this is 17.0.15 at /opt/jdk. "
              "Point JAVA_HOME, or the `java` on the PATH, at a JDK 25.")
         (message {:specification "17", :version "17.0.15", :home "/opt/jdk", :kernel? true})))
  (is (= (str "Magnetar needs JDK 25 or newer; this is 1.8.0_292 at /opt/jre. "
              "Point JAVA_HOME, or the `java` on the PATH, at a JDK 25.")
         (message {:specification "1.8", :version "1.8.0_292", :home "/opt/jre", :kernel? true}))))

(deftest a-missing-kernel-says-how-to-compile-it
  (is (= (str "Magnetar: the kernel is not compiled: run `bin/magnetar classpath` (in a checkout) or "
              "`clojure -X:deps prep` (as a git dependency).")
         (message {:specification "25", :kernel? false}))))

(deftest the-error-carries-data
  (is (= {:magnetar/reason :magnetar/java-too-old, :needed 25, :version "24", :home "/j"}
         (:data (runtime/complaint {:specification "24", :version "24", :home "/j", :kernel? true}))))
  (is (= :magnetar/kernel-not-compiled
         (:magnetar/reason (:data (runtime/complaint {:specification "26", :kernel? false}))))))

(deftest a-new-java-with-a-kernel-is-welcome
  (is (nil? (runtime/complaint {:specification "25", :kernel? true})))
  (is (nil? (runtime/complaint (runtime/this-java)))))

(defn- jars []
  (filter #(str/ends-with? % ".jar") (str/split (System/getProperty "java.class.path") #":")))

(def ^:private kernel
  (first (filter #(str/includes? % "/kernel/") (str/split (System/getProperty "java.class.path") #":"))))

(defn- require-all
  "What the Java at `jdk` prints for each namespace when it alone is required, with `folders` on the class path."
  [jdk folders ns-syms]
  (start {} (str jdk "/bin/java") "-cp" (str/join ":" (concat (jars) folders)) "clojure.main" "-e"
         (pr-str `(doseq [n# '~ns-syms]
                    (try (require n#)
                         (println n# "loaded")
                         (catch Throwable e# (println n# (ex-message (last (take-while some? (iterate ex-cause e#)))))))))))

(defn- kernel-users []
  (map :name (filter layers/needs-runtime-check? (sources/namespaces "core/src/clj"))))

(deftest on-java-17-every-namespace-of-the-core-says-what-is-needed
  (doseq [jdk (take 1 (jdks #(< 8 % 25)))
          :let [{:keys [out]} (require-all jdk [(str home "/core/src/clj") kernel] (kernel-users))]]
    (testing jdk
      (is (= (repeat (count (kernel-users)) "Magnetar needs JDK 25 or newer")
             (map #(or (re-find #"Magnetar needs JDK 25 or newer" %) %) (str/split-lines out))))
      (is (str/includes? out (str "at " jdk ". Point JAVA_HOME"))))))

(deftest without-compiled-kernel-every-namespace-of-the-core-says-what-to-run
  (let [{:keys [out]} (require-all (System/getProperty "java.home") [(str home "/core/src/clj")] (kernel-users))]
    (is (= (repeat (count (kernel-users)) "the kernel is not compiled")
           (map #(or (re-find #"the kernel is not compiled" %) %) (str/split-lines out))))))
