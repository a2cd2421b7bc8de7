(ns magnetar.dev.runtime-of-all-test
  "Each namespace of the core on a Java that is too old, and without compiled kernel. That each looks at the runtime first is a gate of lint."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.lint.layers :as layers]
   [magnetar.dev.lint.sources :as sources]
   [magnetar.dev.processes :refer [home jdks start]]))

(defn- jars
  "The libraries, without the compiled classes of Magnetar itself."
  []
  (->> (str/split (System/getProperty "java.class.path") #":")
       (filter #(str/ends-with? % ".jar"))
       (remove #(str/includes? % "/.cache/start/"))))

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
